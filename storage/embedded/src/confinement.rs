//! The last wall around the engine's process, for a statement that got past the others: the kernel (Landlock) lets it open
//! its own folders and nothing else, connect to nobody, listen nowhere, and signal no process but itself.
//!
//! `/proc` is not among what it may open, so that neither its own environment and memory nor those of its parent can be
//! read. It is best effort: an older kernel holds less, one without Landlock nothing, and both are told.

use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath,
    PathFd, PathFdError, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _,
    RulesetError, RulesetStatus, Scope,
};

/// The rights that are taken away, as far as the kernel knows them: those of Linux 6.12.
const ABI_NEEDED: ABI = ABI::V6;
/// Places that tell the engine of its machine: how much memory and how many processors it has.
const MACHINE: [&str; 3] = ["/sys/fs/cgroup", "/sys/devices/system", "/dev/urandom"];
/// Places where names of hosts and certificates of servers are looked up, where a remote source is permitted.
const NETWORK: [&str; 11] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/ssl",
    "/etc/pki",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/usr/lib",
];

/// How far the kernel confines a process that asked for it.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Confinement {
    /// Files, connections and signals.
    Full,
    /// As an older kernel can: files, and perhaps connections.
    Partial,
    /// Nothing: the kernel has no Landlock, or it is switched off.
    None,
}

/// Room that is left to the process.
pub(crate) struct Room<'a> {
    /// Folders it may do everything in.
    pub(crate) own: &'a [&'a Path],
    /// Whether it may connect to others.
    pub(crate) may_connect: bool,
}

/// Why the rules could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfinementError {
    #[error(transparent)]
    Rules(#[from] RulesetError),
    #[error(transparent)]
    Path(#[from] PathFdError),
}

// === impl Confinement ===

impl Confinement {
    /// Confinement that this kernel has for the engine's process.
    #[must_use]
    pub fn of_this_kernel() -> Self {
        let strictly = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let everything = strictly()
            .handle_access(AccessFs::from_all(ABI_NEEDED))
            .and_then(|rules| rules.handle_access(AccessNet::from_all(ABI_NEEDED)))
            .and_then(|rules| rules.scope(Scope::from_all(ABI_NEEDED)));
        if everything.and_then(Ruleset::create).is_ok() {
            return Self::Full;
        }
        let anything = strictly().handle_access(AccessFs::Execute);
        match anything.and_then(Ruleset::create) {
            Ok(_) => Self::Partial,
            Err(_) => Self::None,
        }
    }

    /// A sentence for the operator; nothing where all is well.
    #[must_use]
    pub fn warning(self) -> Option<&'static str> {
        match self {
            Self::Full => None,
            Self::Partial => Some(
                "this kernel confines the process of ClickHouse in part only (its Landlock is older than 6.12's): \
                 its grants alone keep who has its password from the network",
            ),
            Self::None => Some(
                "this kernel does not confine the process of ClickHouse (it has no Landlock): its grants alone keep \
                 who has its password from files and the network",
            ),
        }
    }
}

/// Confines the calling thread and all that it starts from now on, for ever.
pub(crate) fn confine(room: &Room<'_>) -> Result<Confinement, ConfinementError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI_NEEDED))?
        .handle_access(AccessNet::BindTcp)?
        .scope(Scope::from_all(ABI_NEEDED))?;
    if !room.may_connect {
        rules = rules.handle_access(AccessNet::ConnectTcp)?;
    }
    let mut rules = rules.create()?;
    for folder in room.own {
        rules = allow(rules, folder, AccessFs::from_all(ABI_NEEDED))?;
    }
    let read = AccessFs::from_read(ABI_NEEDED);
    for path in MACHINE
        .iter()
        .chain(NETWORK.iter().filter(|_| room.may_connect))
    {
        if Path::new(path).exists() {
            rules = allow(rules, Path::new(path), read)?;
        }
    }
    Ok(match rules.restrict_self()?.ruleset {
        RulesetStatus::FullyEnforced => Confinement::Full,
        RulesetStatus::PartiallyEnforced => Confinement::Partial,
        RulesetStatus::NotEnforced => Confinement::None,
    })
}

/// Lets `path`, and what is below it, be used so.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, ConfinementError> {
    let access = if path.is_dir() {
        access
    } else {
        access & AccessFs::from_file(ABI_NEEDED)
    };
    Ok(rules.add_rule(PathBeneath::new(PathFd::new(path)?, access))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    #[test]
    fn a_confined_thread_has_its_folder_and_what_it_had_open() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let secret = other.path().join("secret.key");
        fs::write(&secret, "canary").unwrap();
        let confined = thread::scope(|scope| {
            let confined = scope.spawn(|| {
                let room = Room {
                    own: &[own.path()],
                    may_connect: false,
                };
                let confined = confine(&room).unwrap();
                fs::write(own.path().join("a"), "a").unwrap();
                fs::rename(own.path().join("a"), own.path().join("b")).unwrap();
                if confined != Confinement::None {
                    for path in [
                        secret.as_path(),
                        Path::new("/etc/passwd"),
                        Path::new("/proc/self/environ"),
                    ] {
                        fs::read(path).unwrap_err();
                    }
                    fs::write(other.path().join("new"), "a").unwrap_err();
                }
                if confined == Confinement::Full {
                    TcpStream::connect(address).unwrap_err();
                    TcpListener::bind("127.0.0.1:0").unwrap_err();
                    // Nobody is hurt: it only asks whether it might.
                    let parent = rustix::process::getppid().unwrap();
                    let signalled = rustix::process::test_kill_process(parent);
                    assert_eq!(signalled, Err(rustix::io::Errno::PERM));
                }
                // What it starts is confined as well.
                let read = thread::spawn(move || fs::read("/etc/passwd").is_ok());
                assert_eq!(read.join().unwrap(), confined == Confinement::None);
                confined
            });
            confined.join().unwrap()
        });
        assert_eq!(confined, Confinement::of_this_kernel());
        let parent = rustix::process::getppid().unwrap();
        rustix::process::test_kill_process(parent).expect("others may signal it");
        if let Some(warning) = confined.warning() {
            eprintln!("NOT TESTED in full: {warning}");
        }
        assert_eq!(fs::read(secret).unwrap(), b"canary", "others are not");
    }

    #[test]
    fn a_kernel_that_confines_less_is_told_of() {
        assert_eq!(Confinement::Full.warning(), None);
        for less in [Confinement::Partial, Confinement::None] {
            assert!(less.warning().unwrap().contains("its grants alone"));
        }
    }
}
