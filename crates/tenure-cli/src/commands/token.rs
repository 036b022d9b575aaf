//! `tenure token new`, `tenure token ls`: who may call the lock service, and what they may do.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use tenure::config::parse_duration;
use tenure_server::{CallerToken, Callers, CallersError, Principal, PrincipalError, Rights};

use crate::args::{Common, NewTokenArgs, TokenCommand, TokenFileArgs};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::{NewCaller, Output};
use crate::settings::Settings;

pub(crate) fn run(command: &TokenCommand, common: &Common, output: &Output) -> Result<Exit, Failure> {
    match command {
        TokenCommand::New(args) => new(args, common, output),
        TokenCommand::Ls(args) => list(args, common, output),
    }
}

fn new(args: &NewTokenArgs, common: &Common, output: &Output) -> Result<Exit, Failure> {
    let rights = Rights { may: args.may.clone(), prefixes: common.prefix.clone() };
    let until = args.until.as_deref().map(until).transpose()?;
    let (token, principal) = match &args.certificate {
        Some(certificate) => (None, Principal::with_certificate(&args.name, certificate, rights, until)),
        None => {
            let token = CallerToken::generate().ok_or_else(|| {
                Failure::internal("cannot create a token: the operating system provides no random numbers")
            })?;
            let principal = Principal::with_token(&args.name, token.hash(), rights, until);
            (Some(token), principal)
        }
    };
    let principal = principal.map_err(|error: PrincipalError| Failure::usage(error.to_string()))?;
    if let Some(file) = &args.file {
        Callers::append(file, &principal).map_err(|error| unusable(&error))?;
    }
    output.new_caller(&NewCaller {
        principal: &principal,
        token: token.as_ref(),
        file: args.file.as_deref(),
    })?;
    Ok(Exit::DONE)
}

fn list(args: &TokenFileArgs, common: &Common, output: &Output) -> Result<Exit, Failure> {
    if !common.prefix.is_empty() {
        return Err(Failure::usage("--prefix does not apply to `tenure token ls`; remove it"));
    }
    let configured = || Ok::<_, Failure>(Settings::resolve(common, false)?.serve.callers.value.clone());
    let file = match &args.file {
        Some(file) => Some(file.clone()),
        None => configured()?,
    };
    let file = file.ok_or_else(|| {
        Failure::usage("no callers configured; use --file, or set `callers` under [serve] in tenure.toml")
    })?;
    let callers = Callers::read(&file).map_err(|error| unusable(&error))?;
    output.callers(&callers.list())?;
    Ok(Exit::DONE)
}

fn unusable(error: &CallersError) -> Failure {
    Failure::usage(error.to_string())
}

/// A duration from now, a day that is the last one, or a time.
fn until(text: &str) -> Result<Timestamp, Failure> {
    let now = Timestamp::now();
    // In whole seconds: nobody means parts of one.
    let from_now = |duration| {
        let end = now.checked_add(SignedDuration::try_from(duration).ok()?).ok()?;
        Timestamp::from_second(end.as_second()).ok()
    };
    let end_of = |day: Date| Some(day.checked_add(1.day()).ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp());
    let read = (parse_duration(text).ok().and_then(from_now))
        .or_else(|| text.parse().ok())
        .or_else(|| text.parse().ok().and_then(end_of));
    let read = read.ok_or_else(|| {
        Failure::usage(format!(
            "--until: {text:?} is not a time; expected a duration such as 90d, a last day such as \
             2027-03-31, or a time such as 2027-03-31T12:00:00Z"
        ))
    })?;
    if read <= now {
        return Err(Failure::usage(format!("--until: {text} is in the past")));
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_a_duration_a_last_day_or_a_time() {
        let at = |text: &str| until(text).unwrap().to_string();
        assert_eq!(at("2999-12-30"), "2999-12-31T00:00:00Z");
        assert_eq!(at("2999-12-30T12:00:00+02:00"), "2999-12-30T10:00:00Z");
        let day = until("1d").unwrap().duration_since(Timestamp::now());
        assert!((86_390..=86_400).contains(&day.as_secs()), "{day}");
        for wrong in ["", "soon", "2000-01-01", "2999-13-01", "-1d"] {
            assert!(until(wrong).is_err(), "{wrong}");
        }
    }
}
