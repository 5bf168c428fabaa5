#include "trireme/dist_autograd/ids.h"

#include <limits>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"

namespace trireme::dist_autograd {
namespace {

template <class T>
T there_and_back(const T& value) {
  rpc::ValueWriter writer;
  rpc::write_value(writer, value);
  const rpc::Values values = writer.take();
  rpc::ValueReader reader(values, "a test");
  T read = rpc::read_value<T>(reader);
  reader.expect_end();
  return read;
}

TEST(Ids, Travel) {
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  const rpc::WorkerId last = std::numeric_limits<rpc::WorkerId>::max();
  for (const ContextId& id : {ContextId{0, 0}, ContextId{last, most}})
    EXPECT_EQ(there_and_back(id), id);
  for (const bool answer : {false, true}) {
    const SendId send{{3, last, most}, answer};
    EXPECT_EQ(there_and_back(send), send);
    EXPECT_EQ(send.sender(), answer ? last : 3);
  }
  EXPECT_EQ(there_and_back(PassId{7, 9}), (PassId{7, 9}));
}

TEST(Ids, RefuseWorkersThatCannotBe) {
  rpc::ValueWriter writer;
  writer.bytes().u32(0x80000000U).u64(1);
  const rpc::Values values = writer.take();
  rpc::ValueReader reader(values, "a test");
  EXPECT_TRUE(testing::contains(
      testing::message_of<InvalidArgument>([&] { rpc::read_value<ContextId>(reader); }),
      "the number of a worker"));
}

TEST(Ids, SendsOfACallAreTold) {
  const SendHash hash;
  EXPECT_NE(hash({{0, 1, 2}, false}), hash({{0, 1, 2}, true}));
  EXPECT_NE(hash({{0, 1, 2}, false}), hash({{1, 0, 2}, false}));
  EXPECT_EQ(to_string(ContextId{3, 17}), "3.17");
}

}  // namespace
}  // namespace trireme::dist_autograd
