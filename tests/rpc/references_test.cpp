#include "trireme/rpc/references.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::rpc {
namespace {

// The books of three workers; the test carries their notes by hand.
struct Books {
  std::shared_ptr<Releases> releases[3] = {
      std::make_shared<Releases>(),
      std::make_shared<Releases>(),
      std::make_shared<Releases>()};
  References book[3] = {
      {0, 1000, releases[0]}, {1, 2000, releases[1]}, {2, 3000, releases[2]}};
  Consequences then[3];

  Reference give(WorkerId from, const Reference& reference, WorkerId to) {
    return book[to].arrive(from, book[from].send(reference, to), then[to]);
  }

  // Carries all notes until there are none.
  void settle() {
    for (bool more = true; more;) {
      more = false;
      for (WorkerId from = 0; from < 3; ++from) {
        book[from].take_releases(then[from]);
        for (const Posting& note : std::exchange(then[from].postings, {})) {
          book[note.to].take(from, note, then[note.to]);
          more = true;
        }
      }
    }
  }

  bool empty() const {
    for (const References& one : book)
      if (one.owned() + one.held() > 0 || !one.left().empty())
        return false;
    return true;
  }
};

std::shared_ptr<void> value() {
  return std::make_shared<int>(7);
}

TEST(References, AValueGoesWithTheLastHandleOfItsOwner) {
  Books books;
  auto kept = std::make_shared<int>(7);
  Reference mine = books.book[0].own(kept);
  EXPECT_EQ(mine->cargo(), kept);
  mine = {};
  books.settle();
  ASSERT_EQ(books.then[0].dropped.size(), 1u);
  books.then[0].dropped.clear();
  EXPECT_EQ(kept.use_count(), 1);
  EXPECT_TRUE(books.empty());
}

TEST(References, AForkKeepsTheValue) {
  Books books;
  Reference mine = books.book[0].own(value());
  Reference other = books.give(0, mine, 1);
  mine = {};
  books.settle();
  EXPECT_TRUE(books.then[0].dropped.empty());
  EXPECT_TRUE(books.book[0].shares(1));
  other = {};
  books.settle();
  EXPECT_EQ(books.then[0].dropped.size(), 1u);
  EXPECT_TRUE(books.empty());
}

TEST(References, AThirdWorkerIsListedBeforeTheSenderLetsGo) {
  Books books;
  Reference mine = books.book[0].own(value());
  Reference second = books.give(0, mine, 1);
  Reference third = books.give(1, second, 2);
  mine = second = {};
  books.book[0].take_releases(books.then[0]);
  books.book[1].take_releases(books.then[1]);
  EXPECT_TRUE(books.then[1].postings.empty()) << "the pin holds the sender's fork";
  books.settle();
  EXPECT_TRUE(books.then[0].dropped.empty());
  EXPECT_FALSE(books.book[0].shares(1));
  EXPECT_TRUE(books.book[0].shares(2));
  third = {};
  books.settle();
  EXPECT_EQ(books.then[0].dropped.size(), 1u);
  EXPECT_TRUE(books.empty());
}

TEST(References, HomeAgainItIsTheSameValue) {
  Books books;
  Reference mine = books.book[0].own(value());
  Reference other = books.give(0, mine, 1);
  Reference home = books.give(1, other, 0);
  EXPECT_EQ(home->cargo(), mine->cargo());
  EXPECT_EQ(home.hold(), mine.hold());
  mine = other = home = {};
  books.settle();
  EXPECT_TRUE(books.empty());
}

TEST(References, AWorkerThatIsGivenItTwiceHoldsItOnce) {
  Books books;
  Reference mine = books.book[0].own(value());
  Reference once = books.give(0, mine, 1);
  Reference twice = books.give(0, mine, 1);
  EXPECT_EQ(once.hold(), twice.hold());
  books.settle();
  EXPECT_EQ(books.book[0].left().size(), 1u);
  mine = once = twice = {};
  books.settle();
  EXPECT_TRUE(books.empty());
}

TEST(References, ANameWaitsForItsValue) {
  Books books;
  Reference name = books.book[1].name(0);
  EXPECT_TRUE(books.book[1].must_wait(name));
  Reference made = books.book[0].make(1, name->id(), value(), books.then[0]);
  books.settle();
  EXPECT_FALSE(books.book[1].must_wait(name));
  EXPECT_EQ(books.then[1].settled, std::vector{name->id()});
  name = made = {};
  books.settle();
  EXPECT_TRUE(books.empty());
}

TEST(References, ANameThatWillHaveNoValueIsLost) {
  Books books;
  Reference name = books.book[1].name(0);
  books.book[1].abandon(name->id(), "the call was cancelled", books.then[1]);
  EXPECT_TRUE(name->loss().happened());
  EXPECT_EQ(name->loss().why(), "the call was cancelled");
  Reference sent = books.give(1, name, 2);
  EXPECT_TRUE(sent->loss().happened());
  name = sent = {};
  books.settle();
  EXPECT_TRUE(books.empty());
}

TEST(References, ADeadOwnerIsALossWithItsReason) {
  Books books;
  Reference other = books.give(0, books.book[0].own(value()), 1);
  books.book[1].forget(0, "worker 0: killed", books.then[1]);
  EXPECT_TRUE(other->loss().happened());
  EXPECT_EQ(other->loss().why(), "worker 0: killed");
  EXPECT_EQ(books.book[1].held(), 0u);
  EXPECT_FALSE(books.book[1].shares(0));
}

TEST(References, ADeadHolderIsStruckOff) {
  Books books;
  Reference mine = books.book[0].own(value());
  Reference other = books.give(0, mine, 1);
  mine = {};
  books.book[0].take_releases(books.then[0]);
  books.book[0].forget(1, "killed", books.then[0]);
  EXPECT_EQ(books.then[0].dropped.size(), 1u);
  EXPECT_EQ(books.book[0].owned(), 0u);
}

TEST(References, AReceiverThatDiesOnTheWayUnpins) {
  Books books;
  Reference mine = books.book[0].own(value());
  Reference second = books.give(0, mine, 1);
  books.book[1].send(second, 2);  // never arrives
  mine = second = {};
  books.settle();
  EXPECT_EQ(books.book[0].owned(), 1u);
  books.book[1].forget(2, "killed", books.then[1]);
  books.settle();
  EXPECT_TRUE(books.empty());
}

TEST(References, MarksThatCannotBeAreRefused) {
  Books books;
  const auto refuses = [&](TravelMark mark) {
    EXPECT_THROW(books.book[0].arrive(1, mark, books.then[0]), InvalidArgument);
  };
  const ObjectId id{.creator = 2, .number = 9};
  refuses({.id = id, .owner = 2, .passage = Passage::Granted});
  refuses({.id = id, .owner = 2, .passage = Passage::Home});
  refuses({.id = id, .owner = 0, .passage = Passage::Lent});
  refuses({.id = id, .owner = 1, .passage = Passage::Lent});
  EXPECT_THROW(books.book[0].make(1, id, value(), books.then[0]), InvalidArgument);
  EXPECT_THROW(
      books.book[0].make(0, {.creator = 0, .number = 1}, value(), books.then[0]),
      InvalidArgument);
  const ObjectId good{.creator = 1, .number = 9};
  Reference made = books.book[0].make(1, good, value(), books.then[0]);
  EXPECT_THROW(books.book[0].make(1, good, value(), books.then[0]), InvalidArgument);
}

TEST(References, ValuesThatCannotBeThereAreRefused) {
  Books books;
  Reference mine = books.book[0].own(value());
  Reference other = books.give(1, books.book[1].own(value()), 0);
  const auto refuses = [&](WorkerId from, TravelMark mark) {
    mark.number = 77;
    EXPECT_THROW(books.book[0].arrive(from, mark, books.then[0]), InvalidArgument);
  };
  // Names that this worker has not given yet.
  const ObjectId next{.creator = 0, .number = mine->id().number + 100};
  refuses(1, {.id = next, .owner = 1, .passage = Passage::Granted});
  refuses(1, {.id = next, .owner = 2, .passage = Passage::Lent});
  refuses(1, {.id = next, .owner = 0, .passage = Passage::Home});
  // Its own values, with another owner.
  refuses(1, {.id = mine->id(), .owner = 1, .passage = Passage::Granted});
  refuses(1, {.id = mine->id(), .owner = 2, .passage = Passage::Lent});
  // Those of one worker, with another as the owner.
  refuses(2, {.id = other->id(), .owner = 2, .passage = Passage::Granted});
  refuses(1, {.id = other->id(), .owner = 2, .passage = Passage::Lent});
  EXPECT_THROW(
      books.book[0].make(1, other->id(), value(), books.then[0]), InvalidArgument);
  EXPECT_EQ(books.book[0].left().size(), 1u);
}

TEST(References, NotesThatAreWrongChangeNothing) {
  Books books;
  Reference mine = books.book[0].own(value());
  Reference other = books.give(0, mine, 1);
  const ObjectId id = mine->id();
  for (const Note note :
       {Note::Added, Note::Refused, Note::Accept, Note::Remove, Note::Created})
    books.book[0].take(
        2, {.to = 0, .note = note, .id = id, .number = 77}, books.then[0]);
  EXPECT_TRUE(books.book[0].has(id));
  EXPECT_TRUE(books.book[0].shares(1));
  books.book[0].take(
      2, {.to = 0, .note = Note::Add, .id = {5, 5}, .number = 8}, books.then[0]);
  ASSERT_EQ(books.then[0].postings.size(), 1u);
  EXPECT_EQ(books.then[0].postings[0].note, Note::Refused);
}

TEST(References, SaysWhatIsLeftAndWhoHoldsIt) {
  Books books;
  Reference mine = books.book[0].own(value());
  Reference other = books.give(0, mine, 1);
  const std::vector<Tie> ties{{.id = mine->id(), .owner = 0, .holder = 1}};
  EXPECT_EQ(books.book[0].left(), ties);
  EXPECT_EQ(books.book[1].left(), ties);
}

}  // namespace
}  // namespace trireme::rpc
