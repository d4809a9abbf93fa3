//! The proxy between clients and scripted servers, over real sockets.

mod forward;
mod gather;
mod names;
mod scene;
mod uwsgi;
