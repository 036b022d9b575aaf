//! Bars and lines on a logarithmic scale: the figures of peers lie orders of magnitude apart.

use std::fmt::Write;

const WIDTH: f64 = 960.0;
const STYLE: &str =
    "text{font:13px sans-serif;fill:#222}.t{font-size:16px;font-weight:bold}.g{stroke:#ddd}.n{fill:#555}";

pub(super) struct Bar {
    pub(super) label: String,
    pub(super) colour: &'static str,
    pub(super) value: Option<f64>,
    /// Why there is no value.
    pub(super) problem: String,
}

pub(super) struct Line {
    pub(super) label: String,
    pub(super) colour: &'static str,
    pub(super) values: Vec<Option<f64>>,
}

/// From a value to a place.
struct Scale {
    low: f64,
    high: f64,
}

pub(super) fn bars(title: &str, bars: &[Bar]) -> String {
    const LEFT: f64 = 230.0;
    const ROW: f64 = 24.0;
    const TOP: f64 = 44.0;
    let scale = Scale::over(bars.iter().filter_map(|bar| bar.value));
    let height = TOP + ROW * bars.len() as f64 + 30.0;
    let room = WIDTH - LEFT - 110.0;
    let mut body = String::new();
    for (value, text) in scale.ticks() {
        let (x, bottom) = (LEFT + room * scale.share(value), height - 24.0);
        let _ = writeln!(body, r#"<path class="g" d="M{x:.1} {TOP}V{bottom:.1}"/>"#);
        let _ = writeln!(
            body,
            r#"<text class="n" x="{x:.1}" y="{:.1}" text-anchor="middle">{text}</text>"#,
            height - 8.0
        );
    }
    for (row, bar) in bars.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        let middle = y + ROW * 0.68;
        let label = escaped(&bar.label);
        let _ =
            writeln!(body, r#"<text x="{:.1}" y="{middle:.1}" text-anchor="end">{label}</text>"#, LEFT - 8.0);
        match bar.value.filter(|value| *value > 0.0) {
            Some(value) => {
                let (width, high, colour) = (room * scale.share(value), ROW - 6.0, bar.colour);
                let _ = writeln!(
                    body,
                    r#"<rect x="{LEFT}" y="{:.1}" width="{width:.1}" height="{high:.1}" fill="{colour}"/>"#,
                    y + 3.0
                );
                let (x, text) = (LEFT + width + 6.0, short(value));
                let _ = writeln!(body, r#"<text x="{x:.1}" y="{middle:.1}">{text}</text>"#);
            }
            None => {
                let problem: String = bar.problem.chars().take(90).collect();
                let problem = escaped(&problem);
                let _ = writeln!(
                    body,
                    r#"<text class="n" x="{:.1}" y="{middle:.1}">{problem}</text>"#,
                    LEFT + 6.0
                );
            }
        }
    }
    document(title, height, &body)
}

pub(super) fn lines(title: &str, axis: &str, labels: &[String], lines: &[Line]) -> String {
    const LEFT: f64 = 70.0;
    const RIGHT: f64 = 740.0;
    const TOP: f64 = 50.0;
    const BOTTOM: f64 = 440.0;
    let scale = Scale::over(lines.iter().flat_map(|line| line.values.iter().copied().flatten()));
    let steps = labels.len().saturating_sub(1).max(1) as f64;
    let x = |place: usize| LEFT + 20.0 + (RIGHT - LEFT - 40.0) * place as f64 / steps;
    let y = |value: f64| BOTTOM - (BOTTOM - TOP) * scale.share(value);
    let mut body = String::new();
    for (value, text) in scale.ticks() {
        let y = y(value);
        let _ = writeln!(body, r#"<path class="g" d="M{LEFT} {y:.1}H{RIGHT}"/>"#);
        let _ = writeln!(
            body,
            r#"<text class="n" x="{:.1}" y="{:.1}" text-anchor="end">{text}</text>"#,
            LEFT - 8.0,
            y + 4.0
        );
    }
    for (place, label) in labels.iter().enumerate() {
        let (x, label) = (x(place), escaped(label));
        let _ = writeln!(
            body,
            r#"<text class="n" x="{x:.1}" y="{:.1}" text-anchor="middle">{label}</text>"#,
            BOTTOM + 20.0
        );
    }
    let middle = f64::midpoint(LEFT, RIGHT);
    let _ = writeln!(
        body,
        r#"<text class="n" x="{middle}" y="{}" text-anchor="middle">{axis}</text>"#,
        BOTTOM + 40.0
    );
    for (row, line) in lines.iter().enumerate() {
        let colour = line.colour;
        let points: Vec<(f64, f64)> = (0..)
            .zip(&line.values)
            .filter_map(|(place, value)| Some((x(place), y(value.filter(|value| *value > 0.0)?))))
            .collect();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            body,
            r#"<polyline fill="none" stroke="{colour}" stroke-width="2" points="{}"/>"#,
            path.join(" ")
        );
        for (x, y) in points {
            let _ = writeln!(body, r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.5" fill="{colour}"/>"#);
        }
        let (y, label) = (TOP + 12.0 + 22.0 * row as f64, escaped(&line.label));
        let _ = writeln!(
            body,
            r#"<rect x="{:.1}" y="{:.1}" width="14" height="4" fill="{colour}"/>"#,
            RIGHT + 16.0,
            y - 6.0
        );
        let _ = writeln!(body, r#"<text x="{:.1}" y="{y:.1}">{label}</text>"#, RIGHT + 36.0);
    }
    document(title, BOTTOM + 56.0, &body)
}

impl Scale {
    /// Powers of ten around these values.
    fn over(values: impl Iterator<Item = f64> + Clone) -> Self {
        let values = values.filter(|value| *value > 0.0);
        let low = values.clone().fold(f64::MAX, f64::min);
        let high = values.fold(f64::MIN_POSITIVE, f64::max);
        if low > high {
            return Self { low: 0.0, high: 1.0 };
        }
        // A bar of the least value is still to be seen.
        let low = (low / 1.5).log10().floor();
        Self { low, high: high.log10().max(low + 1.0) }
    }

    /// Where a value lies, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        ((value.log10() - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let power = |step: i32| 10_f64.powf(self.low + f64::from(step));
        (0..20)
            .map(power)
            .take_while(|value| value.log10() <= self.high + 1e-9)
            .map(|value| (value, short(value)))
            .collect()
    }
}

fn document(title: &str, height: f64, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text class=\"t\" x=\"16\" y=\"26\">{title}</text>\n{body}</svg>\n"
    )
}

/// A number in few characters.
fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.1} M", value / 1e6),
        value if value >= 1e4 => format!("{:.0} k", value / 1e3),
        value if value >= 1e3 => format!("{:.1} k", value / 1e3),
        value if value >= 10.0 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_holds_every_value_and_needs_none() {
        let scale = Scale::over([0.5, 70.0, 90_000.0].into_iter());
        assert!(scale.share(0.5) > 0.0 && scale.share(0.5) < scale.share(70.0));
        assert!((scale.share(90_000.0) - 1.0).abs() < 1e-9);
        assert_eq!(Scale::over([].into_iter()).ticks().len(), 2);
        assert_eq!(bars("nobody", &[]).matches("<rect").count(), 1);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.53, 57.2, 1_234.0, 45_678.0, 5e6].map(short), ["0.5", "57", "1.2 k", "46 k", "5.0 M"]);
    }
}
