//! Adds the bytes of uploads up, in a thread that their clients wait for:
//! `jissoku serve target/release/examples/libuploads.so`, then `curl -T FILE http://127.0.0.1:8000/`.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use jissoku_handler::{Handler, PartsHandler, Paused, Request, Response, Server, Taken, handler};

/// What is refused at `/small`.
const SMALL_MAX: u64 = 1000;

struct Uploads {
    jobs: Sender<Job>,
}

/// What has come of an upload.
#[derive(Default)]
struct Upload {
    size: u64,
    sum: Arc<AtomicU64>,
}

/// A part for the thread; the next one is received when it is dropped.
struct Job {
    part: Vec<u8>,
    sum: Arc<AtomicU64>,
    _paused: Option<Paused>,
}

impl Handler for Uploads {
    fn start(_: Server) -> Result<Self, Box<dyn Error>> {
        let (jobs, to_do) = mpsc::channel::<Job>();
        thread::Builder::new().name("sums".to_owned()).spawn(move || {
            for job in to_do {
                let sum = job.part.iter().copied().map(u64::from).sum();
                job.sum.fetch_add(sum, Ordering::Relaxed);
            }
        })?;
        Ok(Self { jobs })
    }

    fn handle<'r>(&mut self, request: Request<'r>) -> Response<'r> {
        let upload = request.take_upload::<Upload>().unwrap_or_default();
        let sum = upload.sum.load(Ordering::Relaxed);
        Response::text(format!("{} {sum} {}", upload.size, request.body().len()))
    }
}

impl PartsHandler for Uploads {
    type Upload = Upload;

    fn take_part<'r>(
        &mut self,
        request: Request<'r>,
        upload: &mut Upload,
        part: &[u8],
    ) -> Taken<'r> {
        upload.size += part.len() as u64;
        match &*request.path() {
            "/small" if upload.size > SMALL_MAX => {
                return Taken::Response(Response::text("too much").status(413));
            }
            "/panic" => drop(request.query("absent").expect("as it is asked to")),
            "/error" => return Taken::from(Err("as it is asked to")),
            _ => {}
        }
        let paused = request.pause(Duration::from_mins(1));
        let job = Job { part: part.to_vec(), sum: Arc::clone(&upload.sum), _paused: paused };
        Taken::from(self.jobs.send(job).map_err(|_| "the thread has ended"))
    }
}

handler!(Uploads, parts);
