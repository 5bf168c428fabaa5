#include "trireme/dp/verify.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>

#include "trireme/comm/agree.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"

namespace trireme::dp {
namespace {

/// Not for enemies: tells apart what accidents make different.
uint64_t hash_bytes(std::string_view bytes, uint64_t hash = 0x9e3779b97f4a7c15ULL) {
  const auto mix = [&](uint64_t word) {
    hash = (hash ^ word) * 0xbf58476d1ce4e5b9ULL;
    hash ^= hash >> 29;
  };
  size_t done = 0;
  for (; done + 8 <= bytes.size(); done += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + done, 8);
    mix(word);
  }
  uint64_t rest = bytes.size();
  for (; done < bytes.size(); ++done)
    rest = rest << 8 | static_cast<unsigned char>(bytes[done]);
  mix(rest);
  return hash;
}

uint64_t hash_tensor(const at::Tensor& tensor, uint64_t hash) {
  const at::Tensor flat = tensor.detach().contiguous();
  return hash_bytes(
      {static_cast<const char*>(flat.const_data_ptr()), flat.nbytes()}, hash);
}

std::vector<int64_t> gather_numbers(const comm::Group& group, at::Tensor mine) {
  at::Tensor all = at::empty({group.size() * mine.numel()}, mine.options());
  comm::all_gather(group, all, mine);
  const auto* begin = all.const_data_ptr<int64_t>();
  return {begin, begin + all.numel()};
}

at::Tensor one_number(uint64_t number) {
  return at::full(
      {1}, static_cast<int64_t>(number), at::TensorOptions().dtype(at::kLong));
}

/// Everybody's lines. Only on the way to an error.
std::vector<std::vector<std::string>> gather_lines(
    const comm::Group& group, const std::vector<std::string>& lines) {
  std::string joined;
  for (const std::string& line : lines)
    joined += line + '\n';
  std::vector<std::vector<std::string>> out;
  for (const std::string& theirs : comm::gather_texts(group, joined)) {
    std::string_view rest = theirs;
    auto& its = out.emplace_back();
    while (!rest.empty()) {
      const size_t end = rest.find('\n');
      its.emplace_back(rest.substr(0, end));
      rest.remove_prefix(end + 1);
    }
  }
  return out;
}

/// "rank 0: a; ranks 1 and 3: b".
std::string who_has_what(
    const comm::Group& group, const std::vector<std::string>& values) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (size_t rank = 0; rank < values.size(); ++rank) {
    const auto known = std::find_if(groups.begin(), groups.end(), [&](const auto& g) {
      return g.first == values[rank];
    });
    const int member = group.members()[rank];
    if (known != groups.end())
      known->second.push_back(member);
    else
      groups.push_back({values[rank], {member}});
  }
  std::string out;
  for (const auto& [value, ranks] : groups)
    out += text(out.empty() ? "" : "; ", comm::rank_list(ranks), ": ", value);
  return out;
}

/// Calls `f` with all tensors of each dtype as one flat tensor, then writes it back.
template <class F>
void for_each_flat(const std::vector<at::Tensor>& tensors, F&& f) {
  const c10::AutoGradMode no_grad(false);
  std::map<c10::ScalarType, std::vector<at::Tensor>> by_dtype;
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined() && tensor.numel() > 0)
      by_dtype[tensor.scalar_type()].push_back(tensor.detach());
  for (const auto& [dtype, its] : by_dtype) {
    std::vector<at::Tensor> flats;
    for (const at::Tensor& tensor : its)
      flats.push_back(tensor.reshape({-1}));
    at::Tensor flat = at::cat(flats);
    f(flat);
    // Below autograd, so that versions stay as they are.
    const at::AutoDispatchBelowADInplaceOrView below;
    int64_t begin = 0;
    for (const at::Tensor& tensor : its) {
      tensor.copy_(flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
      begin += tensor.numel();
    }
  }
}

}  // namespace

void verify_same(
    const comm::Group& group,
    const std::string& what,
    const std::vector<std::string>& lines) {
  if (group.size() == 1)
    return;
  uint64_t hash = lines.size();
  for (const std::string& line : lines)
    hash = hash_bytes(line, hash);
  const std::vector<int64_t> hashes = gather_numbers(group, one_number(hash));
  if (std::all_of(
          hashes.begin(), hashes.end(), [&](int64_t h) { return h == hashes[0]; }))
    return;
  const auto all = gather_lines(group, lines);
  size_t longest = 0;
  for (const auto& its : all)
    longest = std::max(longest, its.size());
  for (size_t k = 0; k < longest; ++k) {
    std::vector<std::string> values;
    for (const auto& its : all)
      values.push_back(k < its.size() ? its[k] : text("nothing"));
    if (std::any_of(values.begin(), values.end(), [&](const std::string& value) {
          return value != values[0];
        }))
      throw InvalidArgument(text(
          "[dp] expected the same ",
          what,
          " on all ranks, got a difference at line ",
          k + 1,
          ": ",
          who_has_what(group, values),
          "; build the model in the same way everywhere"));
  }
  throw InternalError(text("[dp] the hashes of the ", what, " differ, but not itself"));
}

std::string describe(const Parameter& parameter) {
  return text(
      parameter.name,
      " ",
      comm::dtype_name(parameter.tensor.scalar_type()),
      " of sizes ",
      parameter.tensor.sizes(),
      " and strides ",
      parameter.tensor.strides(),
      parameter.sparse ? " with sparse gradients" : "");
}

void broadcast_values(
    const comm::Group& group, const std::vector<at::Tensor>& tensors, int source) {
  if (group.size() == 1)
    return;
  for_each_flat(
      tensors, [&](at::Tensor& flat) { comm::broadcast(group, flat, source); });
}

void average_values(const comm::Group& group, const std::vector<at::Tensor>& tensors) {
  if (group.size() == 1)
    return;
  for_each_flat(tensors, [&](at::Tensor& flat) {
    if (c10::isFloatingType(flat.scalar_type()) ||
        c10::isComplexType(flat.scalar_type()))
      comm::all_reduce(group, flat, {.op = comm::ReduceOp::Mean});
    else
      comm::broadcast(group, flat, 0);
  });
}

void verify_equal_values(
    const comm::Group& group, const std::vector<Parameter>& parameters) {
  if (group.size() == 1)
    return;
  at::Tensor own = at::empty(
      {static_cast<int64_t>(parameters.size()) + 1},
      at::TensorOptions().dtype(at::kLong));
  auto* hashes = own.mutable_data_ptr<int64_t>();
  uint64_t whole = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const uint64_t hash = hash_tensor(parameters[i].tensor, 1);
    hashes[i] = static_cast<int64_t>(hash);
    whole = hash_bytes({reinterpret_cast<const char*>(&hash), sizeof hash}, whole);
  }
  const std::vector<int64_t> all = gather_numbers(group, one_number(whole));
  if (std::all_of(all.begin(), all.end(), [&](int64_t h) { return h == all[0]; }))
    return;
  const auto count = parameters.size();
  const std::vector<int64_t> each =
      gather_numbers(group, own.narrow(0, 0, static_cast<int64_t>(count)));
  for (size_t i = 0; i < count; ++i) {
    std::vector<std::string> values;
    for (size_t rank = 0; rank < all.size(); ++rank)
      values.push_back(text("hash ", std::hex, each[rank * count + i]));
    if (std::any_of(values.begin(), values.end(), [&](const std::string& value) {
          return value != values[0];
        }))
      throw Error(text(
          "[dp] expected equal replicas, got values of ",
          parameters[i].name,
          " that differ: ",
          who_has_what(group, values),
          "; somebody changed a parameter on one rank, or skipped a step"));
  }
}

}  // namespace trireme::dp
