//! Numbers for people.

/// `1234567` as `1.23M`, as the eye takes it in a table.
pub(super) fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.2}M", value / 1e6),
        value if value >= 1e3 => format!("{:.1}k", value / 1e3),
        value if value >= 100.0 => format!("{value:.0}"),
        value => significant(value, 3),
    }
}

/// So many digits that say something, without an exponent.
pub(super) fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let before = value.abs().log10().floor() as i32 + 1;
    format!("{value:.*}", (digits - before).clamp(0, 12) as usize)
}

/// The value, or the `-` of a column that does not apply.
pub(super) fn optional(value: Option<f64>, format: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        assert_eq!(short(1_234_567.0), "1.23M");
        assert_eq!(short(420_712.0), "420.7k");
        assert_eq!(short(930.4), "930");
        assert_eq!(short(0.31), "0.310");
        assert_eq!(significant(1.0, 3), "1.00");
        assert_eq!(significant(12.345, 3), "12.3");
        assert_eq!(significant(1234.5, 3), "1234");
        assert_eq!(significant(0.000_123_4, 3), "0.000123");
        assert_eq!(significant(0.0, 3), "0");
        assert_eq!(optional(None, |value| value.to_string()), "-");
    }
}
