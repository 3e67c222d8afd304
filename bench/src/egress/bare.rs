//! The reference for what passes unseen: a relay that does nothing but move bytes by `splice`, a thread for each way.

use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};

use rustix::pipe::{PipeFlags, SpliceFlags};

use super::world::PUBLIC;
use super::{BARE, RAW};

/// How much a pipe holds, as ours do.
const ROOM: usize = 1 << 20;

/// Serves until it is ended.
pub(super) fn serve() -> anyhow::Result<()> {
    let listener = TcpListener::bind((PUBLIC, BARE))?;
    println!("ready");
    std::io::stdout().flush()?;
    for inside in listener.incoming() {
        let inside = inside?;
        std::thread::spawn(move || both(inside));
    }
    Ok(())
}

fn both(inside: TcpStream) -> anyhow::Result<()> {
    let outside = TcpStream::connect((PUBLIC, RAW))?;
    for stream in [&inside, &outside] {
        stream.set_nodelay(true)?;
    }
    let (near, far) = (inside.try_clone()?, outside.try_clone()?);
    let back = std::thread::spawn(move || one(&far, &near));
    one(&inside, &outside)?;
    drop(back.join());
    Ok(())
}

fn one(from: &TcpStream, to: &TcpStream) -> anyhow::Result<()> {
    let (out, into) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::pipe::fcntl_setpipe_size(&into, ROOM)?;
    loop {
        let mut held = rustix::pipe::splice(from, None, &into, None, ROOM, SpliceFlags::MOVE)?;
        if held == 0 {
            drop(to.shutdown(Shutdown::Write));
            return Ok(());
        }
        while held > 0 {
            held -= rustix::pipe::splice(&out, None, to, None, held, SpliceFlags::MOVE)?;
        }
    }
}
