//! What `kubectl get` prints, as columns and rows.

/// A table as it was printed. Columns stand at least two blanks apart.
pub struct Table {
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub fn parse(printed: &str) -> Table {
        let mut lines = printed.lines().map(cells);
        Table { header: lines.next().unwrap_or_default(), rows: lines.collect() }
    }

    /// The cell of the first row whose first cell begins with `name`.
    #[track_caller]
    pub fn cell(&self, name: &str, column: &str) -> &str {
        let row = self.rows.iter().find(|row| row[0].starts_with(name));
        let row = row.unwrap_or_else(|| panic!("no row {name} in {:?}", self.rows));
        let position = self.header.iter().position(|c| c == column);
        &row[position.unwrap_or_else(|| panic!("no column {column} in {:?}", self.header))]
    }

    pub fn names(&self) -> Vec<&str> {
        self.rows.iter().map(|row| row[0].as_str()).collect()
    }
}

fn cells(line: &str) -> Vec<String> {
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
}

/// Whether a cell is an age as kubectl prints it, like `5s` or `2m3s`.
pub fn is_age(cell: &str) -> bool {
    cell.starts_with(|c: char| c.is_ascii_digit()) && cell.ends_with(['s', 'm', 'h', 'd'])
}
