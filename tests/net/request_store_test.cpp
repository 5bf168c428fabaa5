#include "trireme/net/request_store.h"

#include <gtest/gtest.h>

#include "refusal.h"

namespace trireme::net {
namespace {

/// Answers all requests alike.
class OneAnswer : public RequestStore {
 public:
  explicit OneAnswer(StoreReply reply) : reply_(std::move(reply)) {}
  StoreWatch watch(std::string_view, Callback) override { return StoreWatch(); }
  StoreRequest asked;

 protected:
  StoreReply call(StoreRequest request, Deadline) override {
    asked = std::move(request);
    return reply_;
  }
  Deadline own_deadline() const override {
    return Deadline::after(std::chrono::seconds(1));
  }

 private:
  StoreReply reply_;
};

Deadline no_time() {
  return Deadline::after(std::chrono::milliseconds(10));
}

TEST(RequestStore, ThrowsWhatTheTableRefused) {
  OneAnswer store({.kind = StoreAnswer::Refused, .text = "[net] expected less"});
  EXPECT_EQ(refusal_of([&] { store.set("a", ""); }), "[net] expected less");
  EXPECT_THROW(store.get("a", no_time()), InvalidArgument);
  EXPECT_THROW(store.keys(""), InvalidArgument);
}

TEST(RequestStore, DoesNotTakeTheAnswerToAnotherQuestion) {
  OneAnswer store({.kind = StoreAnswer::Number, .number = 3});
  EXPECT_EQ(store.add("a", 1), 3);
  EXPECT_EQ(store.asked.op, StoreOp::Add);
  EXPECT_EQ(store.asked.delta, 1);
  EXPECT_THROW(store.set("a", ""), InternalError);
  EXPECT_THROW(store.try_get("a"), InternalError);
  OneAnswer missing({.kind = StoreAnswer::Missing, .names = {"a"}});
  EXPECT_THROW(missing.get("a", no_time()), TimeoutError);
  EXPECT_THROW(missing.wait({"a"}, no_time()), TimeoutError);
  EXPECT_THROW(missing.try_get("a"), InternalError);
}

TEST(RequestStore, AnEmptyPageEndsAListing) {
  OneAnswer store({.kind = StoreAnswer::Names, .yes = true});
  EXPECT_TRUE(store.keys("").empty());
}

TEST(RequestStore, TellsChangesApart) {
  EXPECT_EQ(
      store_change(
          {.kind = StoreAnswer::Changed, .value = store_value("v"), .text = "k"}),
      (StoreChange{StoreChange::Kind::Set, "k", "v"}));
  EXPECT_EQ(
      store_change({.kind = StoreAnswer::Erased, .text = "k"}),
      (StoreChange{StoreChange::Kind::Erased, "k", ""}));
  EXPECT_EQ(
      store_change({.kind = StoreAnswer::Lost}),
      StoreChange{.kind = StoreChange::Kind::Lost});
}

}  // namespace
}  // namespace trireme::net
