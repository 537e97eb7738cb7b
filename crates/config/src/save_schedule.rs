//! `snapshot_cron`: at which minutes a snapshot is taken, in the words of crontab, by UTC as the
//! log's lines are.
//!
//! ```text
//!  minute 0-59 | hour 0-23 | day of the month 1-31 | month 1-12 | day of the week 0-7
//! ```
//!
//! A field is `*`, a number, a range `a-b`, any of them with a step `/n`, or several with commas;
//! months and days of the week may have the first three letters of their names. Where both kinds
//! of days are given, either will do.
//!
//! Invariant: a schedule names at least one value in each field.

use base::time::civil_date;

const MINUTES_A_DAY: i64 = 24 * 60;

/// Minutes that were missed are looked at again, up to so many: a clock that was set says nothing.
const MISSED_MAX: i64 = 60;

const MONTHS: &[&str] =
    &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Values of a field, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    bits: u64,
    /// Whether the field begins with an asterisk: then the other field of days decides alone.
    is_any: bool,
}

/// When something is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

impl Schedule {
    /// Reads five fields.
    pub fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else { return None };
        let mut weekdays = Field::parse(weekdays, 0, 7, DAYS)?;
        // Sunday is the first and the last.
        weekdays.bits |= weekdays.bits >> 7;
        Some(Self {
            minutes: Field::parse(minutes, 0, 59, &[])?,
            hours: Field::parse(hours, 0, 23, &[])?,
            days: Field::parse(days, 1, 31, &[])?,
            months: Field::parse(months, 1, 12, MONTHS)?,
            weekdays,
        })
    }

    /// Whether any minute since the one that was looked at last is one; both are counted from 1970.
    pub fn is_due(&self, last: i64, now: i64) -> bool {
        (now - last <= MISSED_MAX) && (last + 1..=now).any(|minute| self.names(minute))
    }

    fn names(&self, minute: i64) -> bool {
        let (days, minute) = (minute.div_euclid(MINUTES_A_DAY), minute.rem_euclid(MINUTES_A_DAY));
        let (_, month, day) = civil_date(days);
        // The first day of 1970 was a Thursday.
        let weekday = (days + 4).rem_euclid(7);
        let (in_month, in_week) = (self.days.has(day), self.weekdays.has(weekday));
        let is_day = match self.days.is_any || self.weekdays.is_any {
            true => in_month && in_week,
            false => in_month || in_week,
        };
        let is_month = self.months.has(month as i64);
        is_day && is_month && self.hours.has(minute / 60) && self.minutes.has(minute % 60)
    }
}

impl Field {
    /// Reads a field with values from `least` to `most`, of which the first may have names.
    fn parse(text: &str, least: u32, most: u32, names: &[&str]) -> Option<Self> {
        let value = |word: &str| {
            let named = names.iter().position(|name| word.eq_ignore_ascii_case(name));
            let number = named.map(|index| index as u32 + least).or_else(|| word.parse().ok());
            number.filter(|number| (least..=most).contains(number))
        };
        let mut bits = 0;
        for part in text.split(',') {
            let (range, step) = match part.split_once('/') {
                Some((range, step)) => (range, step.parse().ok().filter(|step| *step > 0)?),
                None => (part, 1),
            };
            let (first, last) = match range.split_once('-') {
                _ if range == "*" => (least, most),
                Some((first, last)) => (value(first)?, value(last)?),
                // A number with a step goes on to the end.
                None if step > 1 => (value(range)?, most),
                None => (value(range)?, value(range)?),
            };
            if first > last {
                return None;
            }
            (first..=last).step_by(step).for_each(|value| bits |= 1_u64 << value);
        }
        Some(Self { bits, is_any: text.starts_with('*') })
    }

    fn has(self, value: i64) -> bool {
        self.bits >> value & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::Schedule;

    /// The minute of a time on 2026-11-22, a Sunday.
    fn minute(hour: i64, minute: i64) -> i64 {
        (20_779 * 24 + hour) * 60 + minute
    }

    #[test]
    fn minutes_are_named_as_in_crontab() {
        for (text, due, not_due) in [
            ("* * * * *", vec![(0, 0), (12, 34)], vec![]),
            ("*/15 * * * *", vec![(3, 0), (3, 45)], vec![(3, 1), (3, 44)]),
            ("5/20 * * * *", vec![(3, 5), (3, 25), (3, 45)], vec![(3, 0), (3, 20)]),
            ("0 2-4 * * *", vec![(2, 0), (4, 0)], vec![(2, 1), (5, 0)]),
            ("30 9,21 22 11 *", vec![(9, 30), (21, 30)], vec![(9, 0), (10, 30)]),
            ("0 0 * nov sun", vec![(0, 0)], vec![(0, 1)]),
            ("0 0 * * 7", vec![(0, 0)], vec![]),
            ("0 0 * * Mon-Fri", vec![], vec![(0, 0)]),
            ("0 0 * 1-10 *", vec![], vec![(0, 0)]),
            ("0 0 1 * *", vec![], vec![(0, 0)]),
            // Either kind of days will do.
            ("0 0 1 * 0", vec![(0, 0)], vec![]),
            ("0 0 22 * 1", vec![(0, 0)], vec![]),
        ] {
            let schedule = Schedule::parse(text).unwrap_or_else(|| panic!("{text}"));
            for (times, expected) in [(due, true), (not_due, false)] {
                for (hour, at) in times {
                    let now = minute(hour, at);
                    assert_eq!(schedule.is_due(now - 1, now), expected, "{text} {hour}:{at}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for text in [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 8",
            "5-1 * * * *",
            "*/0 * * * *",
            "x * * * *",
            "1,,2 * * * *",
            "* * * * mond",
        ] {
            assert_eq!(Schedule::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_minute_that_was_missed_counts_and_a_clock_that_was_set_does_not() {
        let schedule = Schedule::parse("0 * * * *").unwrap();
        assert!(schedule.is_due(minute(2, 55), minute(3, 5)));
        assert!(!schedule.is_due(minute(3, 0), minute(3, 59)));
        assert!(!schedule.is_due(minute(3, 0), minute(3, 0)));
        assert!(!schedule.is_due(minute(3, 5), minute(2, 0)));
        assert!(!schedule.is_due(0, minute(3, 0)));
    }
}
