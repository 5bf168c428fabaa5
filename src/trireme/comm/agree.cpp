#include "trireme/comm/agree.h"

#include <cstring>
#include <exception>

#include <ATen/Functions.h>

#include "trireme/comm/collective.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

constexpr char kDone = 'd', kFailed = 'f';

}  // namespace

std::vector<std::string> gather_texts(
    const Group& group, std::string mine, std::chrono::milliseconds timeout) {
  std::vector<at::Tensor> all;
  all_gather_uneven(
      group,
      all,
      at::from_blob(mine.data(), {static_cast<int64_t>(mine.size())}, at::kByte),
      {.timeout = timeout});
  std::vector<std::string> texts;
  for (const at::Tensor& theirs : all) {
    const at::Tensor bytes = theirs.contiguous();
    auto& its = texts.emplace_back();
    if (bytes.numel() > 0)  // an empty tensor may have no memory
      its.assign(static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes());
  }
  return texts;
}

std::string share_text(const Group& group, const std::string& mine) {
  at::Tensor size = at::full({1}, static_cast<int64_t>(mine.size()), at::kLong);
  broadcast(group, size, 0);
  if (size.item<int64_t>() == 0)
    return {};
  at::Tensor bytes = at::zeros({size.item<int64_t>()}, at::kByte);
  if (group.rank() == 0)
    std::memcpy(bytes.data_ptr(), mine.data(), mine.size());
  broadcast(group, bytes, 0);
  return {static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()};
}

std::vector<std::string> agree(
    const Group& group,
    const AgreeOptions& options,
    const std::function<std::string()>& body) {
  std::exception_ptr mine;
  std::string word;
  try {
    word = kDone + body();
  } catch (const std::exception& error) {
    mine = std::current_exception();
    word = kFailed + std::string(error.what());
  }
  std::vector<std::string> all = gather_texts(group, std::move(word), options.timeout);
  if (mine)
    std::rethrow_exception(mine);
  const std::vector<int>& members = group.members();
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const bool failed = all[rank].empty() || all[rank][0] == kFailed;
    all[rank].erase(0, 1);
    if (failed)
      throw PeerError(
          members[rank],
          text(
              "[",
              options.module,
              "] ",
              rank_text(static_cast<int>(rank), members),
              ": ",
              all[rank]));
  }
  return all;
}

void check_everywhere(
    const Group& group,
    const AgreeOptions& options,
    const std::function<void()>& check) {
  agree(group, options, [&] {
    check();
    return std::string();
  });
}

}  // namespace trireme::comm
