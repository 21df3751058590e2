//! What the server holds handles of: a place in a list.

/// A list that was taken when the server asked for it, and a place in it.
#[derive(Debug)]
pub(crate) struct Cursor<T> {
    items: Vec<T>,
    at: usize,
}

impl<T> Cursor<T> {
    pub(crate) fn new(items: Vec<T>) -> Self {
        Self { items, at: 0 }
    }

    /// The item at the place; `None` behind the last.
    pub(crate) fn get(&self) -> Option<&T> {
        self.items.get(self.at)
    }

    /// Moves on, at most behind the last item. Returns whether it moved.
    pub(crate) fn advance(&mut self) -> bool {
        let moves = self.at < self.items.len();
        self.at += usize::from(moves);
        moves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_behind_the_last_item() {
        let mut cursor = Cursor::new(vec![1, 2]);
        assert_eq!(cursor.get(), Some(&1));
        assert!(cursor.advance() && cursor.advance());
        assert!(cursor.get().is_none() && !cursor.advance());
        assert!(!Cursor::<u8>::new(Vec::new()).advance());
    }
}
