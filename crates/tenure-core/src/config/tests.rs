use super::*;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn ttl(ttl: Duration) -> Options {
    Options { ttl, ..Options::default() }
}

#[test]
fn defaults_follow_the_ttl() {
    // ttl, node timeout, drift, node ttl: in milliseconds.
    for (ttl_ms, timeout_ms, drift_us, node_ttl_ms) in [
        (50, 5, 2_500, 150),
        (200, 20, 4_000, 300),
        (1_000, 50, 12_000, 1_100),
        (30_000, 50, 302_000, 33_000),
    ] {
        let term = ttl(ms(ttl_ms)).check(MaxTtl::default()).unwrap().term;
        assert_eq!(term.node_timeout(), ms(timeout_ms), "ttl {ttl_ms}");
        assert_eq!(term.drift(), Duration::from_micros(drift_us), "ttl {ttl_ms}");
        assert_eq!(term.node_ttl_ms(), node_ttl_ms, "ttl {ttl_ms}");
    }
}

#[test]
fn a_ttl_has_bounds_and_the_error_says_which() {
    let max = MaxTtl::default();
    for bad in [Duration::ZERO, ms(49), Duration::from_nanos(49_999_999)] {
        let message = ttl(bad).check(max).unwrap_err().to_string();
        assert!(message.ends_with("expected 50ms to 60s"), "{message}");
    }
    let year = Duration::from_secs(365 * 24 * 60 * 60);
    let message = ttl(year).check(max).unwrap_err().to_string();
    assert!(message.contains("expected 50ms to 60s"), "{message}");
    assert!(message.contains("raise max_ttl"), "{message}");
    assert!(ttl(ms(50)).check(max).is_ok());
    assert!(ttl(ms(60_000)).check(max).is_ok());
    assert!(ttl(ms(60_001)).check(MaxTtl::new(ms(90_000)).unwrap()).is_ok());
}

#[test]
fn max_ttl_has_bounds_too() {
    assert!(MaxTtl::new(MAX_TTL_CEILING).is_ok());
    for bad in [Duration::ZERO, ms(49), MAX_TTL_CEILING + ms(1), Duration::MAX] {
        assert_eq!(MaxTtl::new(bad), Err(OptionError::MaxTtl { max_ttl: bad }));
    }
}

#[test]
fn every_other_option_is_checked() {
    let max = MaxTtl::default();
    let base = ttl(ms(1_000));
    type Expect = fn(&OptionError) -> bool;
    let long = Some("x".repeat(LABEL_BYTES_MAX + 1).into());
    let cases: [(Options, Expect); 10] = [
        (Options { label: long, ..base.clone() }, |e| matches!(e, OptionError::Label { .. })),
        (Options { renewal: Renewal::Every(ms(501)), ..base.clone() }, |e| {
            matches!(e, OptionError::Renewal { .. })
        }),
        (Options { renewal: Renewal::Every(ms(49)), ..base.clone() }, |e| {
            matches!(e, OptionError::Renewal { .. })
        }),
        (Options { node_timeout: Some(ms(501)), ..base.clone() }, |e| {
            matches!(e, OptionError::NodeTimeout { .. })
        }),
        (Options { node_timeout: Some(ms(0)), ..base.clone() }, |e| {
            matches!(e, OptionError::NodeTimeout { .. })
        }),
        (Options { drift: Drift { ppm: u32::MAX, constant: ms(2) }, ..base.clone() }, |e| {
            matches!(e, OptionError::Drift { .. })
        }),
        (Options { drift: Drift { ppm: 0, constant: Duration::MAX }, ..base.clone() }, |e| {
            matches!(e, OptionError::Drift { .. })
        }),
        (Options { guard_band: Some(ms(65_001)), ..base.clone() }, |e| {
            matches!(e, OptionError::GuardBand { .. })
        }),
        (Options { max_hold: Some(MaxHold::AtMost(ms(999))), ..base.clone() }, |e| {
            matches!(e, OptionError::MaxHold { .. })
        }),
        (Options { retry: Retry { tries_max: Some(0), ..Retry::default() }, ..base.clone() }, |e| {
            matches!(e, OptionError::NoTries)
        }),
    ];
    for (options, expected) in cases {
        let error = options.check(max).unwrap_err();
        assert!(expected(&error), "{error:?}");
    }
}
