//! Columns that line up.

/// The rows with columns as wide as they have to be: the first to the left, the others to the
/// right.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(index, (cell, &width))| {
            if index == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [["a", "b"], ["long", "1"], ["x", "1,000"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "a         b\nlong      1\nx     1,000\n");
    }
}
