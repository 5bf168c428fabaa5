#include "trireme/dp/options.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::contains;
using testing::message_of;

TEST(DataParallelOptionsText, LimitsOfBuckets) {
  DataParallelOptions options;
  EXPECT_EQ(options.limits().bytes, (std::vector<size_t>{1 << 20, 25 << 20}));
  options.bucket_bytes = 64;  // the first one is never larger
  EXPECT_EQ(options.limits().bytes, (std::vector<size_t>{64, 64}));
  options.bucket_bytes_list = {1, 1000};
  EXPECT_EQ(options.limits().bytes, (std::vector<size_t>{1, 1000}));
  options.bucket_bytes_list = {1, 0};
  EXPECT_THROW(options.limits(), InvalidArgument);
}

TEST(DataParallelOptionsText, TheDtypeThatGradientsAreReducedIn) {
  DataParallelOptions options;
  EXPECT_FALSE(options.reduction_dtype());
  options.gradient_dtype = at::kFloat;
  EXPECT_EQ(options.reduction_dtype(), at::kFloat);
  options.gradient_dtype.reset();
  options.mixed_precision.reduction = at::kBFloat16;
  EXPECT_EQ(options.reduction_dtype(), at::kBFloat16);
}

TEST(DataParallelOptionsText, StagesRefuseWhatIsForModules) {
  const auto refuses = [](auto&& change, const char* name) {
    DataParallelOptions options;
    change(options);
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { check_stage_options(options); }), name))
        << name;
  };
  check_stage_options({});
  refuses([](auto& o) { o.find_unused = true; }, "find_unused");
  refuses([](auto& o) { o.static_graph = true; }, "static_graph");
  refuses([](auto& o) { o.ignore = {"w"}; }, "ignore");
  refuses([](auto& o) { o.delay = {"w"}; }, "delay");
  refuses([](auto& o) { o.check_replicas_every = 1; }, "check_replicas_every");
  refuses(
      [](auto& o) { o.mixed_precision.parameters = at::kBFloat16; }, "mixed_precision");
  refuses(
      [](auto& o) {
        o.hooks = {make_hook("h", [](GradBucket&, const CommHook::Next&) {})};
      },
      "stage_hooks");
  refuses([](auto& o) { o.unrounded = true; }, "gradient_dtype");
}

TEST(DataParallelOptionsText, LinesShowWhatDiffers) {
  DataParallelOptions options;
  const auto plain = option_lines(options);
  options.unrounded = true;
  EXPECT_NE(option_lines(options), plain);
  options = {};
  options.delay = {"w"};
  EXPECT_EQ(option_lines(options).back(), "delayed w");
}

}  // namespace
}  // namespace trireme::dp
