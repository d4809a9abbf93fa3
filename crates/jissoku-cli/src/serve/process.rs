//! The life of the process: from its first listener to its last worker, and what is said to it between.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use jissoku_os::clock;
use jissoku_os::socket::Endpoint;
use jissoku_os::successor::{Image, Said, Successor};
use jissoku_server::{Event, Running, Server, Sockets, Words};

use super::Serve;
use super::edge::Notes;
use super::failure::{Failure, complain};
use super::identity::PidFile;
use super::surroundings::{Surroundings, environment};

/// How long a successor may take until it takes connections; then it is ended.
const SUCCESSOR_PATIENCE: Duration = Duration::from_mins(1);

/// Serves as `arguments` say until a signal ends it.
pub(super) fn live(arguments: &[String]) -> Result<(), Failure> {
    let serve = Serve::read(arguments)?;
    let mut surroundings = Surroundings::read()?;
    let notes = serve.edge.open(&mut surroundings.sockets, &serve.answers.causes())?;
    let given = surroundings.sockets.endpoints();
    let user = serve.identity.find()?;
    let settings = serve.settings(&given, notes.observation())?;
    let is_secure = settings.tls.is_some();
    let server = Server::listen_on(settings, &surroundings.sockets)
        .map_err(|error| Failure::of_input(&error))?;
    // From here on the server alone has them, and can give them up.
    surroundings.sockets = Sockets::default();
    // What only root may do is done now, and what is served is read by whom it will be read again.
    let prepared = serve.identity.pid_file().and_then(|pid_file| {
        if let Some(user) = user {
            let given = pid_file.as_ref().map_or(Ok(()), |file| user.own(file));
            given.and_then(|()| user.assume()).map_err(|error| Failure::of_input(&error))?;
        }
        Ok((pid_file, serve.site()?))
    });
    let (pid_file, site) = match prepared {
        Ok(prepared) => prepared,
        Err(failure) => {
            server.close();
            return Err(failure);
        }
    };
    serve.identity.warn(&server.endpoints());
    // Caught before anybody can know that we listen, so that no signal ends us half-way.
    let words = Words::listen().map_err(|error| Failure::of_work(&error))?;
    jissoku_os::signal::outlive_broken_pipes();
    // With fewer descriptors than hoped for, fewer connections are taken at once, and that is all.
    let _raised = jissoku_os::descriptors::raise_limit();
    let running = server.start(site).map_err(|error| Failure::of_work(&error))?;
    let mut life = Life { arguments, given, running, words, surroundings, pid_file, notes };
    life.notes.start()?;
    life.begin(is_secure);
    life.go_on()?;
    let ended = life.running.join().map_err(|error| Failure::of_work(&error));
    ended.and(life.notes.finish())
}

/// A process that serves.
struct Life<'a> {
    arguments: &'a [String],
    /// Where the listeners are that came from outside.
    given: Vec<Endpoint>,
    running: Running,
    words: Words,
    surroundings: Surroundings,
    pid_file: Option<PidFile>,
    notes: Notes,
}

impl Life<'_> {
    fn begin(&mut self, is_secure: bool) {
        for endpoint in self.running.endpoints() {
            say(&match endpoint {
                Endpoint::Tcp(address) if is_secure => format!("listening on https://{address}/"),
                Endpoint::Tcp(address) => format!("listening on http://{address}/"),
                Endpoint::Unix(path) => format!("listening on unix:{}", path.display()),
            });
        }
        self.say_where_numbers_are();
        if let Some(Err(error)) = self.pid_file.as_mut().map(PidFile::fill) {
            complain(&format!("cannot write the process id: {error}"));
        }
        self.surroundings.relieve_predecessor();
        self.surroundings.tell_status("READY=1\n", "serving");
    }

    fn say_where_numbers_are(&mut self) {
        for endpoint in self.notes.teller().map(|teller| teller.endpoints()).unwrap_or_default() {
            say(&match endpoint {
                Endpoint::Tcp(address) => format!("metrics on http://{address}/metrics"),
                Endpoint::Unix(path) => format!("metrics on unix:{}", path.display()),
            });
        }
    }

    fn go_on(&mut self) -> Result<(), Failure> {
        loop {
            match self.wait(None)? {
                Event::Reload => self.reload(),
                Event::Replace => {
                    if self.replace()? {
                        self.reload();
                    }
                }
                Event::Stopping => self.surroundings.tell_status("STOPPING=1\n", "stopping"),
                Event::Ended => return Ok(()),
                other => self.take_note(&other),
            }
        }
    }

    /// Does what is to be done at any time.
    fn take_note(&mut self, event: &Event) {
        match event {
            Event::Reopen => self.notes.reopen(),
            Event::Replaced(index, why) => tell_of_fault(&format!("worker {index}"), why),
            Event::ReplacedBeside(_, why) => {
                tell_of_fault("the worker that tells the numbers", why);
            }
            Event::EndedBeside => self.notes.bury_teller(),
            _ => {}
        }
    }

    fn wait(&mut self, successor: Option<(&Successor, Duration)>) -> Result<Event, Failure> {
        let other = successor.map(|(successor, patience)| (successor.as_fd(), patience));
        let event = self.running.wait(&mut self.words, other, self.notes.teller());
        event.map_err(|error| Failure::of_work(&error))
    }

    /// Reads everything again, and serves it if it can be served.
    fn reload(&mut self) {
        self.announce_reload();
        let outcome = Serve::read(self.arguments).and_then(|serve| {
            let news = serve.edge.open_again(&self.notes, &serve.answers.causes())?;
            let settings = serve.settings(&self.given, news.observation())?;
            let site = serve.site()?;
            let reloaded = self.running.reload(&settings, site);
            reloaded.map_err(|error| Failure::of_input(&error))?;
            if self.notes.adopt(news)? {
                self.say_where_numbers_are();
            }
            Ok(())
        });
        match outcome {
            Ok(()) => {
                say("reloaded");
                self.surroundings.tell_status("READY=1\n", "serving");
            }
            Err(failure) => self.go_on_as_before(&format!("not reloaded: {failure}")),
        }
    }

    fn announce_reload(&self) {
        let now_us = clock::monotonic_ns() / 1_000;
        self.surroundings.tell(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}"));
    }

    fn go_on_as_before(&self, why: &str) {
        complain(why);
        self.surroundings.tell_status("READY=1\n", why);
    }

    /// Starts the program anew, and leaves everything to it once it takes connections. Returns whether a
    /// reload was asked for meanwhile and is still to be done.
    fn replace(&mut self) -> Result<bool, Failure> {
        self.announce_reload();
        let mut sockets = self.running.sockets();
        // Last, where a successor looks for them.
        sockets.extend(self.notes.teller().map(|teller| teller.sockets()).unwrap_or_default());
        let successor = Image::of_this_process(environment())
            .and_then(|image| Successor::start(&image, &sockets));
        let successor = match successor {
            Ok(successor) => successor,
            Err(error) => {
                self.go_on_as_before(&format!("not replaced: {error}"));
                return Ok(false);
            }
        };
        let patience_ns = u64::try_from(SUCCESSOR_PATIENCE.as_nanos()).unwrap_or(u64::MAX / 2);
        let deadline_ns = clock::monotonic_ns() + patience_ns;
        let mut wants_reload = false;
        let why = loop {
            let left_ns = deadline_ns.saturating_sub(clock::monotonic_ns());
            match self.wait(Some((&successor, Duration::from_nanos(left_ns))))? {
                Event::Reload => wants_reload = true,
                // One is on its way.
                Event::Replace => {}
                Event::Nothing => {
                    break format!("was not ready within {} s", SUCCESSOR_PATIENCE.as_secs());
                }
                Event::Stopping | Event::Ended => {
                    self.surroundings.tell_status("STOPPING=1\n", "stopping");
                    let _ended = successor.end();
                    return Ok(false);
                }
                Event::Other if successor.said() == Said::Ready => {
                    self.hand_over(&successor)?;
                    return Ok(false);
                }
                Event::Other => break "ended before it was ready".to_owned(),
                other => self.take_note(&other),
            }
        };
        let pid = successor.pid();
        let how = successor.end().unwrap_or_else(|error| error.to_string());
        self.go_on_as_before(&format!("not replaced: process {pid} {why} ({how})"));
        Ok(wants_reload)
    }

    fn hand_over(&mut self, successor: &Successor) -> Result<(), Failure> {
        let pid = successor.pid();
        self.surroundings.tell_last(&format!("MAINPID={pid}\nREADY=1"));
        say(&format!("process {pid} serves from here on"));
        let told = self.notes.teller().map_or(Ok(()), Running::hand_over);
        told.and(self.running.hand_over()).map_err(|error| Failure::of_work(&error))
    }
}

fn tell_of_fault(who: &str, why: &str) {
    complain(&format!("{who} has failed with its connections, and another is in its place: {why}"));
}

/// Says something on standard output.
fn say(line: &str) {
    let mut stdout = io::stdout().lock();
    // Whoever closed our standard output does not want to know.
    let _told = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}
