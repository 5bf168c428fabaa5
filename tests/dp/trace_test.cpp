#include "trireme/dp/trace.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "small_net.h"
#include "trireme/core/error.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;

TEST(Trace, ABucketWaitsAndIsReduced) {
  const RoundStats round{
      .round = 3,
      .start_ns = 1000,
      .backward_end_ns = 9000,
      .end_ns = 12000,
      .buckets = {{.bytes = 64, .ready_ns = 2000, .start_ns = 3000, .end_ns = 5000}}};
  const auto trace = nlohmann::json::parse(to_chrome_trace({round}, 2));
  std::map<std::string, std::pair<double, double>> slices;
  for (const auto& event : trace.at("traceEvents"))
    if (event.at("ph") == "X") {
      EXPECT_EQ(event.at("pid"), 2);
      slices[event.at("name")] = {event.at("ts"), event.at("dur")};
    }
  EXPECT_EQ(slices.at("backward 3"), (std::pair{1.0, 8.0}));
  EXPECT_EQ(slices.at("bucket 0 waits"), (std::pair{2.0, 1.0}));
  EXPECT_EQ(slices.at("bucket 0"), (std::pair{3.0, 2.0}));
}

// The second host's clock is an hour ahead; what it did at the same time stands below.
TEST(Trace, IsByTheClockOfTheFirstRank) {
  const auto starts = [](int64_t ahead, const comm::ClockOffset& clock) {
    const RoundStats round{
        .start_ns = ahead + 1000,
        .backward_end_ns = ahead + 9000,
        .end_ns = ahead + 9000,
        .buckets = {
            {.ready_ns = ahead + 2000,
             .start_ns = ahead + 3000,
             .end_ns = ahead + 5000}}};
    const auto trace = nlohmann::json::parse(to_chrome_trace({round}, 0, clock));
    std::vector<double> all;
    for (const auto& event : trace.at("traceEvents"))
      if (event.at("ph") == "X")
        all.push_back(event.at("ts"));
    return all;
  };
  constexpr int64_t kHour = 3'600'000'000'000;
  EXPECT_EQ(starts(0, {}), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(starts(kHour, {.ns = -kHour}), starts(0, {}));
}

TEST(Trace, TheStragglerIsWhoseBackwardTookLongest) {
  const Straggler found =
      find_straggler({{.backward_ns = 10}, {.backward_ns = 30}, {.backward_ns = 20}});
  EXPECT_EQ(found.rank, 1);
  EXPECT_DOUBLE_EQ(found.factor, 1.5);
  EXPECT_THROW(find_straggler({}), InvalidArgument);
}

TEST(TraceRanks, TimesOfAllRanksAndWhatThereIsToKnow) {
  testing::run_world(Backend::Local, 2, [](const comm::Group& group) {
    DataParallel model(
        small_net(), group, {.bucket_bytes = 64, .first_bucket_bytes = 64});
    model(exact_batch(2)).mean().backward();
    const auto times = gather_times(group, model.replica().stats());
    ASSERT_EQ(times.size(), 2u);
    for (const RankTimes& one : times) {
      EXPECT_GT(one.backward_ns, 0);
      EXPECT_GT(one.comm_ns, 0);
    }
    const auto data = logging_data(model.replica());
    EXPECT_EQ(data.at("num_parameter_tensors"), "6");
    EXPECT_EQ(data.at("total_parameter_size_bytes"), text(4 * (40 + 72 + 9)));
    EXPECT_EQ(data.at("unused_parameter_size"), "0");
    EXPECT_EQ(data.at("dtypes"), "float32");
    EXPECT_EQ(data.at("iteration"), "1");
    EXPECT_EQ(data.at("world_size"), "2");
    EXPECT_EQ(data.at("backend_name"), "local");
    EXPECT_EQ(data.at("bucket_cap_bytes"), "64");
    EXPECT_NE(data.at("module_name").find("Sequential"), std::string::npos);
    EXPECT_NE(data.at("bucket_sizes").find(", "), std::string::npos);
    EXPECT_NE(
        data.at("rebuilt_per_bucket_param_indices").find("{5"), std::string::npos);
    // The last layer comes first.
    EXPECT_EQ(data.at("prev_iteration_grad_ready_order_indices").front(), '5');
    EXPECT_TRUE(data.contains("env OMP_NUM_THREADS"));
  });
}

}  // namespace
}  // namespace trireme::dp
