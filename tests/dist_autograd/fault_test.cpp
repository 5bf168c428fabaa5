#include "trireme/dist_autograd/fault.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/rpc/remote_error.h"
#include "trireme/testing/message.h"

namespace trireme::dist_autograd {
namespace {

using testing::contains;

template <class E>
PassFault fault_from(const E& error) {
  return fault_of("here", std::make_exception_ptr(error));
}

TEST(Fault, KeepsTheKindOfAnError) {
  const PassFault gone = fault_from(PeerError(3, "worker 3 has ended"));
  EXPECT_EQ(gone.gone, 3);
  try {
    throw_fault(gone);
  } catch (const PeerError& error) {
    EXPECT_EQ(error.rank(), 3);
    EXPECT_TRUE(contains(error.what(), "on worker here: worker 3 has ended"));
  }
  const PassFault late = fault_from(TimeoutError("no time left"));
  EXPECT_TRUE(late.late);
  EXPECT_THROW(throw_fault(late), TimeoutError);
}

// However many workers it goes through, the one where it was stands in it, once.
TEST(Fault, KeepsTheWorkerWhereItWas) {
  const PassFault there = fault_from(std::runtime_error("no such row"));
  EXPECT_EQ(there.type, "std::runtime_error");
  try {
    throw_fault(there);
  } catch (const rpc::RemoteError& error) {
    const PassFault again = fault_of("further", std::current_exception());
    EXPECT_EQ(error.worker(), "here");
    EXPECT_EQ(again.worker, "here");
    EXPECT_EQ(again.text, "no such row");
    EXPECT_EQ(again.type, "std::runtime_error");
  }
}

TEST(Fault, Travels) {
  rpc::ValueWriter writer;
  rpc::write_value(writer, Answer(fault_from(PeerError(2, "gone"))));
  rpc::write_value(writer, Answer());
  const rpc::Values values = writer.take();
  rpc::ValueReader reader(values, "a test");
  EXPECT_EQ(rpc::read_value<Answer>(reader)->gone, 2);
  EXPECT_FALSE(rpc::read_value<Answer>(reader));
}

}  // namespace
}  // namespace trireme::dist_autograd
