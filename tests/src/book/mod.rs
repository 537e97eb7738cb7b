//! The book's pages, and a place where what they tell to type is tried: [`page`] cuts a page into
//! its fenced blocks, [`stage`] runs them.

pub mod page;
pub mod stage;
