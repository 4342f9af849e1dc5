//! Files that are compressed with gzip.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

/// All members of a file one after the other (RFC 1952, 2.2), with zero bytes behind each passed over, as gunzip does:
/// tapes and block devices pad files with them.
pub(super) struct Members<R> {
    /// None at the end.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Members<R> {
    pub(super) fn new(input: R) -> Self {
        Self { member: Some(GzDecoder::new(input)) }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(member) = &mut self.member else { return Ok(0) };
            let read = member.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let ended = self.member.take().map(GzDecoder::into_inner);
            let Some(mut input) = ended else { return Ok(0) };
            if !skip_zeros(&mut input)? {
                self.member = Some(GzDecoder::new(input));
            }
        }
    }
}

/// Whether nothing is left behind the zero bytes.
fn skip_zeros(input: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let ahead = input.fill_buf()?;
        let zeros = ahead.iter().take_while(|byte| **byte == 0).count();
        let (is_at_end, is_other) = (ahead.is_empty(), zeros < ahead.len());
        input.consume(zeros);
        if is_at_end || is_other {
            return Ok(is_at_end);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write};

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn member(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).expect("it writes");
        encoder.finish().expect("it ends")
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        // A small buffer, so that members and zeros end within and at its end.
        Members::new(BufReader::with_capacity(7, bytes)).read_to_end(&mut text)?;
        Ok(text)
    }

    #[test]
    fn regression_zero_bytes_behind_a_member_were_taken_for_another_one() {
        let (one, other, zeros) = (member(b"one"), member(b"other"), [0; 512]);
        for (parts, text) in [
            (&[&one[..]][..], &b"one"[..]),
            (&[&one, &zeros], b"one"),
            (&[&one, &other], b"oneother"),
            (&[&one, &zeros, &other, &zeros], b"oneother"),
            (&[&member(b""), &zeros[..1]], b""),
        ] {
            assert_eq!(read(&parts.concat()).expect("it reads"), text);
        }
        for parts in [
            &[&one[..], b"x"][..],
            &[&one, &zeros, b"x"],
            &[&one[..one.len() - 1]],
            &[&one, &other[..9]],
        ] {
            assert!(read(&parts.concat()).is_err(), "{parts:?}");
        }
    }
}
