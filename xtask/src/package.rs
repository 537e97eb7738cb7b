//! `package`: what is handed to others, in `target/package`: the Debian package, the bill of
//! materials, and the licences of what is linked.
//!
//! Invariant: the bill and the licences tell of what is linked into the binary or builds it, and of
//! nothing else; equal sources give equal texts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package, PackageId};
use serde_json::{Value, json};

use crate::{release, shell};

/// Which binary is packaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packaged {
    /// The plain one.
    Plain,
    /// That of the last `release`.
    Tuned,
}

/// Builds the binary, writes the texts and makes the Debian package.
pub(crate) fn run(packaged: Packaged) -> Result<(), String> {
    let folder = shell::target().join("package");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let metadata = MetadataCommand::new().current_dir(shell::root()).exec();
    let metadata = metadata.map_err(|error| error.to_string())?;
    let linked = linked(&metadata);
    let bill = serde_json::to_string_pretty(&bill(&linked)).map_err(|error| error.to_string())?;
    write(&folder.join("apus.cdx.json"), &bill)?;
    write(&folder.join("LICENCES.txt"), &licences(&linked))?;
    let binary = match packaged {
        Packaged::Plain => {
            shell::run(&mut shell::cargo(&["build", "--locked", "--release", "-p", "apus"]))?;
            shell::target().join("release/apus")
        }
        Packaged::Tuned => release::tuned()?,
    };
    let script = shell::root().join("packaging/debian/build.sh");
    let mut package = shell::command(script, &[]);
    package.arg(binary).arg(env!("CARGO_PKG_VERSION")).arg(&folder);
    let made = shell::output(&mut package)?;
    println!("{}\nand its bill and licences beside it", made.trim());
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The crates that are not ours and that the binary is made of, by name and version.
fn linked(metadata: &Metadata) -> Vec<&Package> {
    let nodes = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
    let nodes: BTreeMap<&PackageId, _> = nodes.map(|node| (&node.id, node)).collect();
    let binary = metadata.packages.iter().find(|package| package.name.as_str() == "apus");
    let mut open: Vec<&PackageId> = binary.map(|package| &package.id).into_iter().collect();
    let mut seen: BTreeSet<&PackageId> = open.iter().copied().collect();
    while let Some(id) = open.pop() {
        for dependency in &nodes[id].deps {
            let mut kinds = dependency.dep_kinds.iter();
            let is_meant = kinds.any(|kind| kind.kind != DependencyKind::Development);
            if is_meant && seen.insert(&dependency.pkg) {
                open.push(&dependency.pkg);
            }
        }
    }
    let others = seen.into_iter().filter(|id| !metadata.workspace_members.contains(id));
    let mut packages: Vec<&Package> = others.map(|id| &metadata[id]).collect();
    packages.sort_by(|a, b| (&*a.name, &a.version).cmp(&(&*b.name, &b.version)));
    packages
}

/// The bill of materials in the form of CycloneDX.
fn bill(linked: &[&Package]) -> Value {
    let component = |package: &&Package| {
        let (name, version) = (package.name.as_str(), package.version.to_string());
        json!({
            "type": "library",
            "name": name,
            "version": version,
            "purl": format!("pkg:cargo/{name}@{version}"),
            "licenses": [{"expression": package.license.as_deref().unwrap_or("NOASSERTION")}],
        })
    };
    let version = env!("CARGO_PKG_VERSION");
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {
            "type": "application",
            "name": "apus",
            "version": version,
            "licenses": [{"license": {"id": "Apache-2.0"}}],
        }},
        "components": linked.iter().map(component).collect::<Vec<Value>>(),
    })
}

/// The crates by licence, and then the texts that they bring.
fn licences(linked: &[&Package]) -> String {
    let mut by_licence: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for package in linked {
        let licence = package.license.as_deref().unwrap_or("none told");
        let name = format!("{} {}", package.name, package.version);
        by_licence.entry(licence).or_default().push(name);
    }
    let mut text = "What is linked into Apus, by licence.\n".to_owned();
    for (licence, names) in by_licence {
        text += &format!("\n{licence}\n    {}\n", names.join(", "));
    }
    for package in linked {
        let folder = package.manifest_path.as_std_path().parent();
        let entries = folder.and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten();
        let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        files.sort();
        for file in files {
            let name = file.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
            let tells = ["LICENSE", "LICENCE", "COPYING", "NOTICE"];
            if let (true, Ok(words)) =
                (tells.iter().any(|word| name.starts_with(word)), fs::read_to_string(&file))
            {
                let (title, version) = (&package.name, &package.version);
                text += &format!("\n==== {title} {version}: {name}\n\n{}\n", words.trim());
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use cargo_metadata::MetadataCommand;

    use super::{bill, licences, linked};
    use crate::shell;

    #[test]
    fn the_bill_has_what_is_linked_and_not_what_tests_want() {
        let metadata = MetadataCommand::new().current_dir(shell::root()).exec().unwrap();
        let linked = linked(&metadata);
        let has = |name: &str| linked.iter().any(|package| package.name.as_str() == name);
        assert!(has("tokio") && has("mimalloc") && has("lua-src"));
        assert!(!has("proptest") && !has("engine") && !has("shuttle"));
        let bill = bill(&linked);
        assert_eq!(bill["components"].as_array().map(Vec::len), Some(linked.len()));
        assert!(licences(&linked).contains("==== tokio"));
    }
}
