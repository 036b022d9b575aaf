//! What people mistype, flags that mean nothing to a command, and names that look like flags.

use crate::deployment::{Done, TOOL, deployments, embedded_store, token};

#[track_caller]
fn says(done: &Done, words: &str) {
    done.ends_with(64);
    assert!(done.stderr.contains(words), "{words}: {done:?}");
    assert_eq!((done.stderr.lines().count(), done.stdout.as_str()), (1, ""), "{done:?}");
}

#[test]
fn what_was_meant_is_told_when_it_is_mistyped() {
    let deployment = embedded_store();
    for (arguments, meant) in [
        (&["runn", "x", "--", "true"][..], "did you mean run?"),
        (&["stauts", "x"], "did you mean status?"),
        (&["run", "x", "--wiat", "5s", "--", "true"], "did you mean --wait?"),
        (&["status", "x", "--jsno"], "did you mean --json?"),
        (&["acquire", "x", "--tll", "5s"], "did you mean --ttl?"),
        (&["completions", "bahs"], "did you mean bash?"),
        (&["nonsense"], "see --help"),
    ] {
        says(&deployment.tenure(arguments), meant);
    }
    let (failure, _) = deployment.json(&["acquire", "x", "--tll", "5s", "--json"]);
    assert!(failure["message"].as_str().unwrap().ends_with("did you mean --ttl?"), "{failure}");
}

#[test]
fn a_command_without_dashes_before_it_is_told_where_they_go() {
    let deployment = embedded_store();
    for (arguments, right) in [
        (&["run", "x", "ls"][..], "put `--` before the command: `tenure run x -- ls`"),
        (&["run", "x", "ls", "-l", "a b"], "`tenure run x -- ls -l 'a b'`"),
        (&["run", "ls", "ls"], "`tenure run ls -- ls`"),
        (&["run", "x", "--wait", "5s", "make", "--jobs"], "`tenure run x --wait 5s -- make --jobs`"),
        (&["--ttl", "5s", "run", "x", "ls"], "`tenure --ttl 5s run x -- ls`"),
        (&["run", "x"], "`tenure run x -- COMMAND`"),
    ] {
        says(&deployment.tenure(arguments), right);
    }
    let secret = ["run", "x", "redis-cli", "-u", "redis://:hunter2@h"];
    assert!(!deployment.tenure(&secret).stderr.contains("hunter2"));
}

#[test]
fn a_name_may_look_like_a_flag() {
    for deployment in deployments() {
        let tool = |arguments: &[&str]| deployment.tenure(arguments);
        tool(&["run", "-x", "--", "true"]).ends_with(0);
        let (lease, _) = deployment.json(&["acquire", "-x", "--json"]);
        assert_eq!(lease["name"], "-x");
        assert!(tool(&["status", "-x"]).stdout.starts_with("-x  held"));
        let (extended, _) = deployment.json(&["extend", "-x", "--token", token(&lease), "--json"]);
        tool(&["release", "-x", "--token", token(&extended)]).ends_with(0);
        tool(&["acquire", "-x"]).ends_with(0);
        tool(&["release", "--force", "-x"]).ends_with(0);
        // What is a flag, or looks like a long one, stands behind `--`.
        for name in ["-q", "-E", "--json", "--wiat", "-x"] {
            tool(&["acquire", "--", name]).ends_with(0);
            assert!(tool(&["status", "--", name]).stdout.starts_with(&format!("{name}  held")), "{name}");
            let done = tool(&["run", "--quiet", "--", name, "--", "true"]);
            assert_eq!(done.ends_with(75).stderr, "", "{name}");
            let script = "echo \"$TENURE_LOCK\"";
            let free = format!("{name}2");
            let done = tool(&["run", "--", &free, "--", "sh", "-c", script]);
            assert_eq!(done.ends_with(0).stdout, format!("{free}\n"));
        }
    }
    // A flag that no command has is no name where there is one already.
    let deployment = embedded_store();
    for arguments in [
        &["run", "x", "-w", "5s", "--", "true"][..],
        &["run", "-w", "5s", "x", "--", "true"],
        &["status", "x", "-w"],
        &["status", "--wiat"],
        &["release", "-f", "x"],
    ] {
        says(&deployment.tenure(arguments), "unexpected argument '-");
    }
    says(&deployment.tenure(&["run", "--", "true"]), "<NAME>");
}

#[test]
fn flags_that_a_command_would_ignore_are_refused() {
    let deployment = embedded_store();
    let lease = deployment.json(&["acquire", "x", "--json"]).0;
    for (command, ignored) in [
        (&["status", "x"][..], &["--ttl", "--wait", "--label"][..]),
        (&["ls"], &["--ttl", "--wait", "--label"]),
        (&["release", "x", "--token", token(&lease)], &["--ttl", "--wait", "--label"]),
        (&["extend", "x", "--token", token(&lease)], &["--wait", "--label"]),
        (&["doctor"], &["--wait", "--label"]),
        (&["completions", "bash"], &["--nodes", "--config", "--prefix", "--ttl", "--wait", "--label"]),
        (&["man"], &["--nodes", "--config", "--prefix", "--ttl", "--wait", "--label"]),
    ] {
        for flag in ignored {
            for arguments in [[command, &[*flag, "5s"]].concat(), [&[*flag, "5s"], command].concat()] {
                says(
                    &deployment.tenure(&arguments),
                    &format!("{flag} does not apply to `tenure {}`", command[0]),
                );
            }
        }
    }
    for command in [&["completions", "bash"][..], &["man"]] {
        for flag in ["--json", "--require-nodes"] {
            deployment.tenure(&[command, &[flag]].concat()).ends_with(64);
        }
    }
    // Their help does not offer them.
    for (command, flag, offered) in [
        ("status", "--wait", false),
        ("status", "--nodes", true),
        ("run", "--wait", true),
        ("man", "--nodes", false),
        ("bench", "--nodes", true),
        ("bench", "--ttl", false),
        ("plan", "--ttl", true),
        ("plan", "--prefix", false),
    ] {
        for help in [deployment.tenure(&[command, "--help"]), deployment.tenure(&["help", command])] {
            assert_eq!(help.ends_with(0).stdout.contains(&format!("{flag} <")), offered, "{command} {flag}");
        }
        let page = deployment.tenure(&["man", command]).stdout.replace('\\', "");
        assert_eq!(page.contains(flag), offered, "{command} {flag}");
    }
    // Nothing was done by any of them, and variables are for all commands.
    deployment.tenure(&["acquire", "x", "-q"]).ends_with(75);
    let mut command = deployment.command(&["status", "x"]);
    Done::of(command.env("TENURE_TTL", "5s").env("TENURE_WAIT", "5s").output().unwrap()).ends_with(0);
}

#[test]
fn the_token_of_a_refusal_is_not_null_in_the_form_that_the_help_shows() {
    let deployment = embedded_store();
    let help = deployment.tenure(&["acquire", "--help"]).stdout;
    let line = help.lines().find(|line| line.contains("jq")).unwrap().trim();
    assert_eq!(line, "token=$(tenure acquire nightly --json | jq -er .token) || exit");
    if !std::process::Command::new("jq").arg("--version").output().is_ok_and(|done| done.status.success()) {
        println!("not tried: jq is not installed");
        return;
    }
    let script = format!("tenure() {{ {TOOL} \"$@\"; }}; {line}\necho \"$token\"");
    let run = || {
        let mut shell = deployment.program("sh");
        Done::of(shell.args(["-c", &script]).output().unwrap())
    };
    assert!(run().ends_with(0).stdout.contains('.'));
    assert_eq!(run().ends_with(1).stdout, "");
}
