//! The bits of a payload: six a character, most significant first, the fill bits at the end cut off.
//!
//! A message may be shorter than its type says. A field that begins inside and ends outside has the
//! bits that are there; one that begins outside is missing, which the caller asks with [`Bits::has`].

/// Payload bits, unpacked into bytes.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Bits {
    bytes: Vec<u8>,
    len: usize,
}

impl Bits {
    /// Takes the armour off `payload`, which holds armour characters only.
    #[must_use]
    pub fn unarmour(payload: &[u8], fill_bits: u8) -> Self {
        let mut bits = Self { bytes: Vec::with_capacity(payload.len() * 6 / 8 + 1), len: 0 };
        for character in payload {
            bits.push(unarmour(*character), 6);
        }
        bits.len = bits.len.saturating_sub(usize::from(fill_bits));
        bits
    }

    fn push(&mut self, value: u8, count: usize) {
        for shift in (0..count).rev() {
            if self.len.is_multiple_of(8) {
                self.bytes.push(0);
            }
            if value >> shift & 1 == 1 {
                self.bytes[self.len / 8] |= 0x80 >> (self.len % 8);
            }
            self.len += 1;
        }
    }

    /// How many bits there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no bit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a field that begins at `at` has any bit.
    #[must_use]
    pub fn has(&self, at: usize) -> bool {
        at < self.len
    }

    fn bit(&self, at: usize) -> u8 {
        self.bytes[at / 8] >> (7 - at % 8) & 1
    }

    /// The unsigned number in the bits `at..at + width`, of those that exist.
    #[must_use]
    pub fn unsigned(&self, at: usize, width: usize) -> u64 {
        assert!(width <= 64);
        let end = (at + width).min(self.len);
        (at..end).fold(0, |value, i| value << 1 | u64::from(self.bit(i)))
    }

    /// The two's complement number in the bits that exist.
    #[must_use]
    pub fn signed(&self, at: usize, width: usize) -> i64 {
        assert!(width < 64);
        let present = (at + width).min(self.len).saturating_sub(at);
        let value = self.unsigned(at, width).cast_signed();
        if present > 0 && value >> (present - 1) & 1 == 1 { value - (1 << present) } else { value }
    }

    /// Six-bit text without what pads it at its end.
    #[must_use]
    pub fn text(&self, at: usize, width: usize) -> String {
        let characters = (at..at + width).step_by(6).map(|i| match self.unsigned(i, 6) as u8 {
            letter @ 0..32 => (letter + 64) as char,
            other => other as char,
        });
        let text: String = characters.collect();
        text.trim_end_matches('@').trim_matches(' ').to_owned()
    }

    /// The bits that exist, left aligned in bytes.
    #[must_use]
    pub fn data(&self, at: usize, width: usize) -> Vec<u8> {
        let mut out = Self::default();
        for i in at..(at + width).min(self.len) {
            out.push(self.bit(i), 1);
        }
        out.bytes
    }
}

fn unarmour(character: u8) -> u8 {
    let value = character.wrapping_sub(b'0');
    if value > 40 { value.wrapping_sub(8) & 63 } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_cut_by_the_end_has_the_bits_that_are_there() {
        let bits = Bits::unarmour(b"w0", 0); // 111111 000000
        assert_eq!(bits.unsigned(4, 4), 0b1100);
        assert_eq!(bits.unsigned(10, 30), 0);
        assert_eq!(bits.signed(4, 2), -1);
        assert_eq!(Bits::unarmour(b"w0", 5).signed(5, 27), -2);
        assert!(!bits.has(12));
    }

    #[test]
    fn text_ends_before_its_padding() {
        // A, B, @, C, space, @ in six bits each
        let bits = Bits { bytes: vec![0b0000_0100, 0b0010_0000, 0b0000_0011, 0b1000_0000, 0], len: 36 };
        assert_eq!(bits.text(0, 36), "AB@C");
    }

    #[test]
    fn data_is_left_aligned() {
        let bits = Bits::unarmour(b"ww", 0);
        assert_eq!(bits.data(7, 99), [0b1111_1000]);
    }
}
