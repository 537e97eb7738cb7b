//! Which cells of the map a search must look at: those of the size of the area around its centre,
//! at most nine.
//!
//! Invariant: the cells, and their order, are those of Redis, so that results come in the same
//! order even where none was asked for.

use super::geohash::{Bounds, Cell, Position, STEP_MAX};

/// Half the way around the world on a Mercator map, in metres.
const MERCATOR_MAX_M: f64 = 20_037_726.37;

/// The centre and its neighbours as columns to the east and rows to the north.
const NEIGHBOURS: [(i32, i32); 9] =
    [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];

/// The cells around a centre that together cover an area within a radius and within bounds.
pub(super) fn covering(centre: Position, radius_m: f64, bounds: &Bounds) -> Vec<Cell> {
    let mut step = step_of(radius_m, centre.latitude);
    if step > 1 && !reaches(Cell::at(centre, step), bounds) {
        step -= 1;
    }
    let middle = Cell::at(centre, step);
    let inner = middle.bounds();
    // Where the middle cell itself reaches beyond the area, no neighbour is needed.
    let is_needed = |(columns, rows): (i32, i32)| {
        step < 2
            || !(rows < 0 && inner.south < bounds.south
                || rows > 0 && inner.north > bounds.north
                || columns < 0 && inner.west < bounds.west
                || columns > 0 && inner.east > bounds.east)
    };
    let mut cells: Vec<Cell> = Vec::new();
    for (columns, rows) in NEIGHBOURS {
        let cell = middle.moved(columns, rows);
        // Around a small world the way east and the way west may end in the same cell.
        let repeats = cells.len() > 1 && cells.last() == Some(&cell);
        if is_needed((columns, rows)) && !repeats {
            cells.push(cell);
        }
    }
    cells
}

/// How often the map is halved until a cell is about as large as a radius.
fn step_of(radius_m: f64, latitude: f64) -> u32 {
    if radius_m == 0.0 {
        return STEP_MAX;
    }
    let (mut range_m, mut step) = (radius_m, 1);
    while range_m < MERCATOR_MAX_M {
        range_m *= 2.0;
        step += 1;
    }
    // Twice as large to be sure, and larger towards the poles, where columns are narrow.
    let spare = match latitude.abs() {
        80.0.. if latitude.abs() > 80.0 => 4,
        66.0.. if latitude.abs() > 66.0 => 3,
        _ => 2,
    };
    (step - spare).clamp(1, STEP_MAX as i32) as u32
}

/// Whether the cells around one reach to all bounds.
fn reaches(middle: Cell, bounds: &Bounds) -> bool {
    let neighbour = |columns, rows| middle.moved(columns, rows).bounds();
    neighbour(0, 1).north >= bounds.north
        && neighbour(0, -1).south <= bounds.south
        && neighbour(1, 0).east >= bounds.east
        && neighbour(-1, 0).west <= bounds.west
}
