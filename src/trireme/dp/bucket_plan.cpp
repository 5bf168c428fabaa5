#include "trireme/dp/bucket_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "trireme/core/error.h"

namespace trireme::dp {
namespace {

constexpr int64_t kLineBytes = 64;

size_t at(int i) {
  return static_cast<size_t>(i);
}

int64_t element_bytes(c10::ScalarType dtype) {
  return static_cast<int64_t>(c10::elementSize(dtype));
}

/// The next multiple of a line, in elements.
int64_t line_up(int64_t elements, c10::ScalarType dtype) {
  const int64_t line = std::max<int64_t>(1, kLineBytes / element_bytes(dtype));
  return (elements + line - 1) / line * line;
}

struct OpenBucket {
  std::vector<int> parameters;
  size_t bytes = 0;
  /// Which limit holds.
  size_t limit = 0;
};

/// A full bucket, and when it was.
struct Full {
  size_t position;
  std::vector<int> parameters;
};

}  // namespace

std::vector<int> reversed_order(size_t parameters) {
  std::vector<int> order(parameters);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

Buckets assign_buckets(
    std::span<const ParameterSize> parameters,
    std::span<const int> order,
    const BucketLimits& limits) {
  if (limits.bytes.empty())
    throw InvalidArgument(
        "[dp] expected at least one limit for the size of buckets, got none; give one "
        "in bytes");
  std::map<c10::ScalarType, OpenBucket> open;
  std::vector<Full> full;
  size_t position = 0;
  std::map<c10::ScalarType, size_t> last_position;
  for (const int i : order) {
    const ParameterSize& parameter = parameters[at(i)];
    if (parameter.sparse) {
      full.push_back({position++, {i}});
      continue;
    }
    OpenBucket& bucket = open[parameter.dtype];
    bucket.parameters.push_back(i);
    bucket.bytes +=
        static_cast<size_t>(parameter.elements * element_bytes(parameter.dtype));
    last_position[parameter.dtype] = position;
    if (bucket.bytes >= limits.bytes[bucket.limit]) {
      full.push_back({position, std::exchange(bucket.parameters, {})});
      bucket.bytes = 0;
      bucket.limit = std::min(bucket.limit + 1, limits.bytes.size() - 1);
    }
    ++position;
  }
  for (auto& [dtype, bucket] : open)
    if (!bucket.parameters.empty())
      full.push_back({last_position[dtype], std::move(bucket.parameters)});
  std::sort(full.begin(), full.end(), [](const Full& a, const Full& b) {
    return a.position < b.position;
  });
  Buckets buckets;
  for (Full& one : full)
    buckets.push_back(std::move(one.parameters));
  return buckets;
}

Layout lay_out(
    std::span<const ParameterSize> parameters,
    const Buckets& buckets,
    const RiderRoom& room) {
  Layout layout;
  layout.places.resize(parameters.size());
  std::map<c10::ScalarType, int64_t> used;
  std::vector<size_t> dense;
  for (size_t b = 0; b < buckets.size(); ++b)
    if (!parameters[at(buckets[b].front())].sparse)
      dense.push_back(b);
  for (size_t b = 0; b < buckets.size(); ++b) {
    const ParameterSize& first = parameters[at(buckets[b].front())];
    BucketRange range{
        .dtype = first.dtype, .sparse = first.sparse, .parameters = buckets[b]};
    int64_t& end = used[first.dtype];
    range.begin = end;
    for (const int i : buckets[b]) {
      layout.places[at(i)] = {static_cast<int>(b), end};
      if (!first.sparse)
        end += line_up(parameters[at(i)].elements, first.dtype);
    }
    range.riders_begin = end;
    if (!first.sparse) {
      range.riders += room.parameter * static_cast<int64_t>(buckets[b].size());
      if (b == dense.front())
        range.riders += room.first;
      if (b == dense.back())
        range.riders += room.last;
    }
    end += line_up(range.riders, first.dtype);
    range.elements = end - range.begin;
    layout.buckets.push_back(std::move(range));
  }
  for (const auto& [dtype, elements] : used)
    if (elements > 0)
      layout.buffers.push_back({dtype, elements});
  return layout;
}

double drift(
    std::span<const ParameterSize> parameters,
    const Buckets& now,
    const Buckets& wanted) {
  std::vector<size_t> bucket_now(parameters.size());
  for (size_t b = 0; b < now.size(); ++b)
    for (const int i : now[b])
      bucket_now[at(i)] = b;
  double moved = 0;
  double all = 0;
  for (size_t b = 0; b < wanted.size(); ++b)
    for (const int i : wanted[b]) {
      const auto bytes = static_cast<double>(
          parameters[at(i)].elements * element_bytes(parameters[at(i)].dtype));
      all += bytes;
      if (bucket_now[at(i)] != b)
        moved += bytes;
    }
  return all > 0 ? moved / all : 0;
}

}  // namespace trireme::dp
