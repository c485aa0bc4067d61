//! Why the server did not start or could not go on, and the exit code that says so.

use std::process::ExitCode;

/// Why the process ends other than it should.
#[derive(Debug)]
pub enum Failure {
    /// It was told something that makes no sense: exit code 2.
    Usage(anyhow::Error),
    /// The world did not let it: exit code 1.
    Runtime(anyhow::Error),
}

impl Failure {
    /// The exit code.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Usage(_) => ExitCode::from(2),
            Failure::Runtime(_) => ExitCode::from(1),
        }
    }

    /// What went wrong.
    pub fn error(&self) -> &anyhow::Error {
        match self {
            Failure::Usage(error) | Failure::Runtime(error) => error,
        }
    }

    /// The same, for whoever has exit codes of its own.
    pub fn into_error(self) -> anyhow::Error {
        match self {
            Failure::Usage(error) | Failure::Runtime(error) => error,
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::Runtime(error)
    }
}
