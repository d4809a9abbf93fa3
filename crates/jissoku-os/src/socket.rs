//! Sockets: [`Endpoint`]s, non-blocking streams, listeners, and options of connections.

mod listening;
mod moving;
mod options;
mod stream;

pub use listening::{
    Sharing, bind, bind_and_listen, from_inherited, is_listening, is_resource_exhausted,
    is_reuseport, listen, probe_bind, set_backlog,
};
pub use moving::{connection_queue, receive_connection, send_connection};
pub use options::SocketOptions;
pub use stream::*;
