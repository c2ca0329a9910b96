//! Asks for a secret on the terminal without showing it. The main thread runs it; the terminal is
//! as it was when this returns.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result, Write};

use rustix::termios::{tcgetattr, tcsetattr, LocalModes, OptionalActions, Termios};

use crate::base::secret::Secret;

/// Bytes of what is typed: no secret is longer.
const MOST: usize = 4096;

/// Asks with `question` on the terminal of this process, whatever its input and output are.
///
/// Blocks: until a line is typed.
///
/// # Errors
/// There is no terminal, or Ctrl-C or Ctrl-D was typed, or nothing.
pub(super) fn secret(question: &str) -> Result<Secret> {
    let mut terminal = Silent::open()?;
    terminal.file.write_all(question.as_bytes())?;
    let typed = terminal.line();
    terminal.file.write_all(b"\n")?;
    let typed = typed?;
    match typed.trim() {
        "" => Err(Error::new(ErrorKind::UnexpectedEof, "nothing was typed")),
        typed => Ok(Secret::new(typed)),
    }
}

/// The terminal without echo. Signals are read as characters meanwhile, so that Ctrl-C cannot
/// leave it behind like this.
struct Silent {
    file: File,
    before: Termios,
}

impl Silent {
    fn open() -> Result<Silent> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
        let before = tcgetattr(&file)?;
        let mut silent = before.clone();
        silent.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        // What was typed before the question is not its answer.
        tcsetattr(&file, OptionalActions::Flush, &silent)?;
        Ok(Silent { file, before })
    }

    fn line(&mut self) -> Result<String> {
        let mut typed = Vec::new();
        let mut byte = [0_u8; 1];
        loop {
            if self.file.read(&mut byte)? == 0 {
                break;
            }
            match byte[0] {
                b'\n' | b'\r' => break,
                // Ctrl-C; Ctrl-D where nothing was typed.
                3 => return Err(Error::new(ErrorKind::Interrupted, "given up")),
                4 if typed.is_empty() => {
                    return Err(Error::new(ErrorKind::UnexpectedEof, "given up"))
                }
                // Backspace and Ctrl-U.
                8 | 127 => drop(typed.pop()),
                21 => typed.clear(),
                byte if typed.len() < MOST => typed.push(byte),
                _ => return Err(Error::new(ErrorKind::InvalidInput, "it is too long")),
            }
        }
        String::from_utf8(typed).map_err(|_| Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.file, OptionalActions::Now, &self.before);
    }
}
