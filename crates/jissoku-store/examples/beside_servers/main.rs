//! The store beside memcached and Redis over a Unix socket: reads, writes and increments, one at a
//! time and in batches.
//!
//! `cargo run --profile quick -p jissoku-store --example beside_servers -- FOLDER KEYS BLOCKS MS`
//! prints a turn a line, as JSON: in each block every system does each kind of work for `MS`
//! milliseconds, in an order that is drawn anew. `python -m tests.store_study` runs it, and makes a
//! table of them.

mod servers;

use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use jissoku_os::clock;
use jissoku_store::{Change, Durability, Options, Store, Ttl, WhenFull};

use servers::{Protocol, Server};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Bytes of a value.
const VALUE_SIZE: usize = 100;

/// Bytes of a key.
const KEY_SIZE: usize = 16;

/// How many keys have numbers.
const COUNTERS: u32 = 1_000;

/// Operations of a batch.
const BATCH: usize = 32;

/// Further sizes of batches of writes, which are transactions.
const WRITE_BATCHES: [usize; 2] = [16, 100];

/// The clock is read after this many calls.
const CALLS: u64 = 16;

/// Entries of one write while a store is filled.
const FILL_BATCH: u32 = 1_000;

/// What is done with a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Get,
    Put,
    Increment,
    /// Sets numbers to 0.
    Begin,
}

impl Work {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Get, "get"), (Self::Put, "put"), (Self::Increment, "increment")];

    /// The first character of the keys that it uses.
    pub(crate) const fn prefix(self) -> u8 {
        match self {
            Self::Get | Self::Put => b'v',
            Self::Increment | Self::Begin => b'n',
        }
    }
}

/// A key: a character and a number of 15 digits.
pub(crate) fn key_of(prefix: u8, number: u32) -> [u8; KEY_SIZE] {
    let mut key = [b'0'; KEY_SIZE];
    key[0] = prefix;
    let (mut rest, mut place) = (number, KEY_SIZE);
    while rest > 0 {
        place -= 1;
        key[place] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// A system with keys and values.
trait System {
    fn name(&self) -> &'static str;

    /// Its process, unless it is in this one.
    fn server(&self) -> Option<i32>;

    /// Does the same work with several keys, in one batch if there is more than one.
    fn call(&mut self, work: Work, numbers: &[u32]) -> Outcome<()>;
}

impl System for Store {
    fn name(&self) -> &'static str {
        "store"
    }

    fn server(&self) -> Option<i32> {
        None
    }

    fn call(&mut self, work: Work, numbers: &[u32]) -> Outcome<()> {
        let value = [b'x'; VALUE_SIZE];
        match (work, numbers) {
            (Work::Get, _) => {
                let snapshot = self.snapshot()?;
                for &number in numbers {
                    let found = snapshot.get(&key_of(work.prefix(), number))?;
                    if found.is_none_or(|found| found.len() != VALUE_SIZE) {
                        return Err("a value is not there".into());
                    }
                }
            }
            (Work::Put, [number]) => {
                self.put(&key_of(work.prefix(), *number), &value, Ttl::Default)?;
            }
            (Work::Put, _) => {
                let keys: Vec<_> =
                    numbers.iter().map(|&number| key_of(work.prefix(), number)).collect();
                let entries: Vec<Change<'_>> =
                    keys.iter().map(|key| (&key[..], Some(&value[..]))).collect();
                self.put_many(&entries, Ttl::Default)?;
            }
            // There is no batch of increments.
            (Work::Increment, _) => {
                for &number in numbers {
                    self.increment(&key_of(work.prefix(), number), 1, Ttl::Default)?;
                }
            }
            (Work::Begin, _) => {
                for &number in numbers {
                    self.put(&key_of(work.prefix(), number), b"0", Ttl::Default)?;
                }
            }
        }
        Ok(())
    }
}

impl System for Server {
    fn name(&self) -> &'static str {
        self.protocol().name()
    }

    fn server(&self) -> Option<i32> {
        Some(self.process())
    }

    fn call(&mut self, work: Work, numbers: &[u32]) -> Outcome<()> {
        self.exchange(work, numbers)
    }
}

/// Numbers that look random, by xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from((self.0 >> 32) % u64::from(end)).unwrap_or(0)
    }
}

/// What a system has done in its turn, in nanoseconds.
#[derive(Debug, Default)]
struct Turn {
    count: u64,
    elapsed_ns: u64,
    client_ns: u64,
    server_ns: u64,
}

/// CPU time of the server of a system.
fn server_ns(system: &dyn System) -> Outcome<u64> {
    let used = system.server().map_or(Some(0), clock::process_cpu_ns);
    Ok(used.ok_or("the server has ended")?)
}

/// What is done in a turn, and for how long.
#[derive(Clone, Copy, Debug)]
struct Task {
    work: Work,
    batch: usize,
    keys: u32,
    length_ns: u64,
}

impl Task {
    fn run(self, system: &mut dyn System, random: &mut Random) -> Outcome<Turn> {
        let end = if self.work == Work::Increment { COUNTERS } else { self.keys };
        let mut numbers = vec![0; self.batch];
        let start = (clock::monotonic_ns(), clock::own_cpu_ns(), server_ns(system)?);
        let mut turn = Turn::default();
        while turn.elapsed_ns < self.length_ns {
            for _ in 0..CALLS {
                numbers.fill_with(|| random.below(end));
                system.call(self.work, &numbers)?;
            }
            turn.count += CALLS * self.batch as u64;
            turn.elapsed_ns = clock::monotonic_ns() - start.0;
        }
        turn.client_ns = clock::own_cpu_ns() - start.1;
        turn.server_ns = server_ns(system)? - start.2;
        Ok(turn)
    }
}

/// Writes values for all keys, and 0 for the numbers.
fn fill(system: &mut dyn System, keys: u32) -> Outcome<()> {
    for start in (0..keys).step_by(FILL_BATCH as usize) {
        let numbers: Vec<u32> = (start..keys.min(start + FILL_BATCH)).collect();
        system.call(Work::Put, &numbers)?;
    }
    let counters: Vec<u32> = (0..COUNTERS).collect();
    system.call(Work::Begin, &counters)
}

fn options(keys: u32) -> Options {
    let size = (64 << 20) + u64::from(keys) * 400;
    Options { size, ttl_ms: None, durability: Durability::Lazy, when_full: WhenFull::Refuse }
}

/// Processes that write to the store at the same time.
struct Writers(Vec<Child>);

impl Writers {
    /// Starts them; each waits for a line of its input before it does the task.
    fn start(count: usize, folder: &Path, task: Task) -> Outcome<Self> {
        let program = std::env::current_exe()?;
        let words = [task.keys.to_string(), task.batch.to_string(), task.length_ns.to_string()];
        let start = |number: usize| {
            let mut command = Command::new(&program);
            command.arg("--writer").arg(folder).args(&words).arg((number + 1).to_string());
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
        };
        Ok(Self((0..count).map(start).collect::<Result<_, _>>()?))
    }

    fn run(mut self) -> Outcome<Turn> {
        let mut outputs = Vec::new();
        for child in &mut self.0 {
            let mut output = BufReader::new(child.stdout.take().ok_or("it is piped")?);
            // The store is open.
            output.read_line(&mut String::new())?;
            outputs.push(output);
        }
        for child in &mut self.0 {
            child.stdin.take().ok_or("it is piped")?.write_all(b"go\n")?;
        }
        let mut all = Turn::default();
        for output in &mut outputs {
            let mut line = String::new();
            output.read_line(&mut line)?;
            let found: Vec<u64> =
                line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
            let [count, elapsed_ns, client_ns] = found[..] else {
                return Err("a writer has failed".into());
            };
            all.count += count;
            all.elapsed_ns = all.elapsed_ns.max(elapsed_ns);
            all.client_ns += client_ns;
        }
        for child in &mut self.0 {
            child.wait()?;
        }
        Ok(all)
    }
}

/// The work of such a process.
fn write(arguments: &[String]) -> Outcome<()> {
    let [folder, keys, batch, length_ns, seed] = arguments else {
        return Err("started by the program itself".into());
    };
    let keys = keys.parse()?;
    let mut store = Store::open(Path::new(folder), "values", Some(&options(keys)))?;
    writeln!(io::stdout(), "ready")?;
    io::stdin().lock().read_line(&mut String::new())?;
    let task = Task { work: Work::Put, batch: batch.parse()?, keys, length_ns: length_ns.parse()? };
    let mut random = Random(seed.parse::<u64>()?.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let turn = task.run(&mut store, &mut random)?;
    writeln!(io::stdout(), "{} {} {}", turn.count, turn.elapsed_ns, turn.client_ns)?;
    Ok(())
}

/// One cell of a block: the index of a system and how many processes use it, and what is done.
#[derive(Clone, Copy, Debug)]
struct Cell {
    system: usize,
    processes: usize,
    task: Task,
}

fn cells(systems: usize, keys: u32, length_ns: u64) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (work, _) in Work::ALL {
        let further = if work == Work::Put { &WRITE_BATCHES[..] } else { &[] };
        for &batch in [1, BATCH].iter().chain(further) {
            let task = Task { work, batch, keys, length_ns };
            cells.extend((0..systems).map(|system| Cell { system, processes: 1, task }));
            if work == Work::Put {
                cells.push(Cell { system: 0, processes: 2, task });
            }
        }
    }
    cells
}

fn compare(folder: &Path, keys: u32, blocks: u32, length_ms: u64) -> Outcome<()> {
    let store = Store::open(folder, "values", Some(&options(keys)))?;
    let mut systems: Vec<Box<dyn System>> = vec![Box::new(store)];
    for protocol in [Protocol::Memcached, Protocol::Redis] {
        match Server::start(protocol, folder) {
            Ok(server) => systems.push(Box::new(server)),
            Err(error) => writeln!(io::stderr(), "without {}: {error}", protocol.name())?,
        }
    }
    for system in &mut systems {
        fill(&mut **system, keys)?;
    }
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut cells = cells(systems.len(), keys, length_ms * 1_000_000);
    for block in 0..blocks {
        for end in (2..=cells.len()).rev() {
            cells.swap(end - 1, random.below(u32::try_from(end)?) as usize);
        }
        for Cell { system, processes, task } in &cells {
            let system = &mut *systems[*system];
            let turn = match processes {
                1 => task.run(system, &mut random)?,
                count => Writers::start(*count, folder, *task)?.run()?,
            };
            let work = Work::ALL.iter().find(|(work, _)| *work == task.work);
            writeln!(
                io::stdout(),
                "{{\"block\": {block}, \"system\": \"{}\", \"processes\": {processes}, \
                 \"work\": \"{}\", \"batch\": {}, \"count\": {}, \"elapsed_ns\": {}, \
                 \"client_ns\": {}, \"server_ns\": {}}}",
                system.name(),
                work.map_or("", |(_, name)| name),
                task.batch,
                turn.count,
                turn.elapsed_ns,
                turn.client_ns,
                turn.server_ns
            )?;
        }
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [word, rest @ ..] if word == "--writer" => write(rest),
        [folder, keys, blocks, length_ms] => {
            let folder = PathBuf::from(folder);
            compare(&folder, keys.parse()?, blocks.parse()?, length_ms.parse()?)
        }
        _ => Err("arguments: FOLDER KEYS BLOCKS MS".into()),
    }
}
