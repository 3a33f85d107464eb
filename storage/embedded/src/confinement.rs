//! Sandbox of the engine's process (Landlock), the last layer for a statement that got past the
//! others. The process may open its own folders and nothing else, connect to nobody but the login
//! server and its own listeners, listen on their ports only, and signal no process but itself.
//!
//! The kernel checks a file by where it is and not by the path to it, so links lead nowhere. Device
//! files cannot be made: as root, one of a disk would be a way to every file.
//!
//! `/proc` is not allowed but for two files about memory, so neither its own environment and memory
//! nor those of its parent can be read. The sandbox is best effort: an older kernel enforces less,
//! one without Landlock nothing, and both cases give a warning.

use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, NetPort,
    PathBeneath, PathFd, PathFdError, Ruleset, RulesetAttr as _, RulesetCreated,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};

/// Rights that are taken away as far as the kernel knows them: those of Linux 6.12.
const ABI_NEEDED: ABI = ABI::V6;
/// Paths from which the engine learns how much memory and how many processors the machine has, and
/// how much memory the process uses.
const MACHINE_PATHS: [&str; 5] = [
    "/sys/fs/cgroup",
    "/sys/devices/system",
    "/dev/urandom",
    "/proc/meminfo",
    "/proc/self/statm",
];
/// Paths for resolving host names and verifying servers' certificates, readable when a remote
/// source is permitted.
const NETWORK_PATHS: [&str; 11] = [
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

/// Extent to which the kernel enforces the sandbox.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Confinement {
    /// Files, connections and signals.
    Full,
    /// Files, and perhaps connections: an older kernel.
    Partial,
    /// Nothing: the kernel has no Landlock, or it is switched off.
    None,
}

/// Access that the sandbox leaves to the process.
pub(crate) struct SandboxPolicy<'a> {
    /// Folders with full access.
    pub(crate) folders: &'a [&'a Path],
    /// Folder that may be read.
    pub(crate) readable: Option<&'a Path>,
    /// Ports to listen on by TCP.
    pub(crate) listen_ports: &'a [u16],
    /// Ports that may be connected to, on any host.
    pub(crate) connect_ports: &'a [u16],
    /// True if outgoing connections are allowed.
    pub(crate) may_connect: bool,
}

/// Reason the rules could not be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfinementError {
    #[error(transparent)]
    Rules(#[from] RulesetError),
    #[error(transparent)]
    Path(#[from] PathFdError),
}

// === impl Confinement ===

impl Confinement {
    /// Confinement that this kernel supports for the engine's process.
    #[must_use]
    pub fn supported_by_kernel() -> Self {
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

    /// Warning for the operator; `None` with full confinement.
    #[must_use]
    pub fn warning(self) -> Option<&'static str> {
        match self {
            Self::Full => None,
            Self::Partial => Some(
                "this kernel confines the process of ClickHouse in part only (its Landlock is \
                 older than 6.12's): only its grants keep whoever has its password from the \
                 network",
            ),
            Self::None => Some(
                "this kernel does not confine the process of ClickHouse (it has no Landlock): only \
                 its grants keep whoever has its password from files and the network",
            ),
        }
    }
}

/// Confines the calling thread and every thread or process that it starts from now on, irrevocably.
pub(crate) fn confine(policy: &SandboxPolicy<'_>) -> Result<Confinement, ConfinementError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI_NEEDED))?
        .handle_access(AccessNet::BindTcp)?
        .scope(Scope::from_all(ABI_NEEDED))?;
    if !policy.may_connect {
        rules = rules.handle_access(AccessNet::ConnectTcp)?;
    }
    let mut rules = rules.create()?;
    let all = AccessFs::from_all(ABI_NEEDED) & !(AccessFs::MakeBlock | AccessFs::MakeChar);
    for folder in policy.folders {
        rules = allow(rules, folder, all)?;
    }
    let read = AccessFs::from_read(ABI_NEEDED);
    let known = MACHINE_PATHS
        .iter()
        .chain(NETWORK_PATHS.iter().filter(|_| policy.may_connect))
        .map(Path::new);
    for path in known.chain(policy.readable) {
        if path.exists() {
            rules = allow(rules, path, read)?;
        }
    }
    for port in policy.listen_ports {
        rules = rules.add_rule(NetPort::new(*port, AccessNet::BindTcp))?;
    }
    // With remote sources connecting is not restricted, so there is nothing to allow.
    for port in policy.connect_ports.iter().filter(|_| !policy.may_connect) {
        rules = rules.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    Ok(match rules.restrict_self()?.ruleset {
        RulesetStatus::FullyEnforced => Confinement::Full,
        RulesetStatus::PartiallyEnforced => Confinement::Partial,
        RulesetStatus::NotEnforced => Confinement::None,
    })
}

/// Allows `access` to `path` and everything below it.
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
    use rustix::fs::FileType;
    use std::fs;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::symlink;
    use std::thread;

    #[test]
    fn a_confined_thread_can_only_use_its_folder_and_files_opened_before() {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [address, login] = listeners
            .each_ref()
            .map(|listener| listener.local_addr().unwrap());
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let own_port = free.local_addr().unwrap().port();
        drop(free);
        let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let secret = other.path().join("secret.key");
        fs::write(&secret, "canary").unwrap();
        let confined = thread::scope(|scope| {
            let confined = scope.spawn(|| {
                let policy = SandboxPolicy {
                    folders: &[own.path()],
                    readable: None,
                    listen_ports: &[own_port],
                    connect_ports: &[login.port()],
                    may_connect: false,
                };
                let confined = confine(&policy).unwrap();
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
                TcpListener::bind(("127.0.0.1", own_port)).unwrap();
                if confined == Confinement::Full {
                    TcpStream::connect(login).unwrap();
                    TcpStream::connect(address).unwrap_err();
                    TcpListener::bind("127.0.0.1:0").unwrap_err();
                    // Sends no signal: it only checks for the permission to.
                    let parent = rustix::process::getppid().unwrap();
                    let signalled = rustix::process::test_kill_process(parent);
                    assert_eq!(signalled, Err(rustix::io::Errno::PERM));
                }
                // Threads that it starts are confined as well.
                let read = thread::spawn(move || fs::read("/etc/passwd").is_ok());
                assert_eq!(read.join().unwrap(), confined == Confinement::None);
                confined
            });
            confined.join().unwrap()
        });
        assert_eq!(confined, Confinement::supported_by_kernel());
        let parent = rustix::process::getppid().unwrap();
        rustix::process::test_kill_process(parent).expect("others may signal it");
        if let Some(warning) = confined.warning() {
            eprintln!("NOT TESTED in full: {warning}");
        }
        assert_eq!(fs::read(secret).unwrap(), b"canary", "others are not");
    }

    #[test]
    fn links_in_its_folder_lead_a_confined_thread_nowhere_and_it_makes_no_device() {
        let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (own, other) = (own.path(), other.path());
        let secret = other.join("secret.key");
        fs::write(&secret, "canary").unwrap();
        symlink(&secret, own.join("file")).unwrap();
        symlink(other, own.join("folder")).unwrap();
        assert_eq!(fs::read(own.join("folder/secret.key")).unwrap(), b"canary");
        let in_sandbox = || {
            let policy = SandboxPolicy {
                folders: &[own],
                readable: None,
                listen_ports: &[],
                connect_ports: &[],
                may_connect: false,
            };
            if confine(&policy).unwrap() == Confinement::None {
                return;
            }
            symlink(other, own.join("later")).unwrap();
            for name in ["file", "folder/secret.key", "later/secret.key"] {
                fs::read(own.join(name)).unwrap_err();
                fs::OpenOptions::new()
                    .append(true)
                    .open(own.join(name))
                    .unwrap_err();
            }
            for name in ["folder", "later"] {
                fs::read_dir(own.join(name)).unwrap_err();
                fs::write(own.join(name).join("new"), "a").unwrap_err();
            }
            fs::hard_link(&secret, own.join("hard")).unwrap_err();
            fs::rename(&secret, own.join("moved")).unwrap_err();
            for kind in [FileType::BlockDevice, FileType::CharacterDevice] {
                let mode = rustix::fs::Mode::RUSR;
                let path = own.join("device");
                rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap_err();
            }
        };
        thread::scope(|scope| scope.spawn(in_sandbox).join().unwrap());
        assert_eq!(fs::read(&secret).unwrap(), b"canary");
        assert_eq!(fs::read_dir(other).unwrap().count(), 1);
    }

    #[test]
    fn partial_confinement_gives_a_warning() {
        assert_eq!(Confinement::Full.warning(), None);
        for less in [Confinement::Partial, Confinement::None] {
            assert!(less.warning().unwrap().contains("only its grants keep"));
        }
    }
}
