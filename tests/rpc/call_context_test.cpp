#include "trireme/rpc/call_context.h"

#include <thread>

#include <gtest/gtest.h>

namespace trireme::rpc {
namespace {

using std::chrono::milliseconds;

CallPointer call_named(const char* function) {
  return std::make_shared<CallContext>(CallContext{.function = function});
}

}  // namespace

TEST(CallContext, IsAbsentOutsideOfACall) {
  EXPECT_EQ(this_call(), nullptr);
  EXPECT_EQ(share_this_call(), nullptr);
}

TEST(CallContext, IsThereWithinItsScopeOnly) {
  {
    const CallScope outer(call_named("outer"));
    EXPECT_EQ(this_call()->function, "outer");
    {
      const CallScope inner(call_named("inner"));
      EXPECT_EQ(this_call()->function, "inner");
      const CallScope nothing(nullptr);
      EXPECT_EQ(this_call(), nullptr);
    }
    EXPECT_EQ(this_call()->function, "outer");
  }
  EXPECT_EQ(this_call(), nullptr);
}

TEST(CallContext, LeavesItsScopeWithAnError) {
  try {
    const CallScope scope(call_named("fails"));
    throw 1;
  } catch (int) {
    EXPECT_EQ(this_call(), nullptr);
  }
}

TEST(CallContext, BelongsToOneThread) {
  const CallScope scope(call_named("here"));
  std::thread([call = share_this_call()] {
    EXPECT_EQ(this_call(), nullptr);
    const CallScope carried(call);
    EXPECT_EQ(this_call()->function, "here");
  }).join();
}

TEST(CallContext, IsKeptByWhoSharesIt) {
  CallPointer kept;
  {
    const CallScope scope(call_named("kept"));
    kept = share_this_call();
  }
  EXPECT_EQ(kept->function, "kept");
}

TEST(CallContext, ANestedCallHasTheSoonerDeadline) {
  const Deadline wish = Deadline::after(milliseconds(1000));
  EXPECT_EQ(nested_deadline(wish).allowed(), milliseconds(1000));
  const auto context = [](int ms) {
    return std::make_shared<CallContext>(
        CallContext{.deadline = Deadline::after(milliseconds(ms))});
  };
  {
    const CallScope shorter(context(500));
    EXPECT_EQ(nested_deadline(wish).allowed(), milliseconds(500));
  }
  const CallScope longer(context(5000));
  EXPECT_EQ(nested_deadline(wish).allowed(), milliseconds(1000));
}

TEST(CallContext, ANestedTokenIsCancelledWithTheCall) {
  const CancelToken token = CancelToken::make();
  EXPECT_FALSE(nested_token().cancelled());
  const CallScope scope(std::make_shared<CallContext>(CallContext{.cancel = token}));
  const CancelToken nested = nested_token();
  EXPECT_NE(nested, token);
  token.cancel("the caller has left");
  EXPECT_EQ(nested.why(), "the caller has left");
}

}  // namespace trireme::rpc
