//! Faults planted to see that the checks of the tests find them.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// A reply leaves without regard to its group's order.
    AnswerFromAnotherGroup,
    /// A failed write is not told to anybody.
    DropFailure,
    /// The group of a publisher changes from entry to entry.
    HashWrongly,
    /// Later entries of a voided publisher are spared.
    SparePublisher,
    /// What was conditioned on a void message is spared.
    SpareConditional,
    /// `failed` leaves before the void record is durable.
    FailBeforeRecord,
}
