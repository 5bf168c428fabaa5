#include "trireme/ckpt/agree.h"

#include <exception>

#include <ATen/Functions.h>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"

namespace trireme::ckpt {
namespace {

constexpr char kDone = 'd', kFailed = 'f';

std::vector<std::string> gather_texts(
    const comm::Group& group, std::chrono::milliseconds timeout, std::string mine) {
  std::vector<at::Tensor> all;
  comm::all_gather_uneven(
      group,
      all,
      at::from_blob(mine.data(), {static_cast<int64_t>(mine.size())}, at::kByte),
      {.timeout = timeout});
  std::vector<std::string> texts;
  for (const at::Tensor& theirs : all) {
    const at::Tensor bytes = theirs.contiguous();
    texts.emplace_back(
        static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes());
  }
  return texts;
}

std::string rank_text(const comm::Group& group, size_t rank) {
  const int in_world = group.members()[rank];
  if (static_cast<size_t>(in_world) == rank)
    return text("rank ", rank);
  return text("rank ", rank, " (world rank ", in_world, ")");
}

}  // namespace

std::vector<std::string> agree(
    const comm::Group& group,
    std::chrono::milliseconds timeout,
    const std::function<std::string()>& body) {
  std::exception_ptr mine;
  std::string word;
  try {
    word = kDone + body();
  } catch (const std::exception& error) {
    mine = std::current_exception();
    word = kFailed + std::string(error.what());
  }
  std::vector<std::string> all = gather_texts(group, timeout, std::move(word));
  if (mine)
    std::rethrow_exception(mine);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const bool failed = all[rank].empty() || all[rank][0] == kFailed;
    all[rank].erase(0, 1);
    if (failed)
      throw PeerError(
          group.members()[rank],
          text("[ckpt] ", rank_text(group, rank), ": ", all[rank]));
  }
  return all;
}

}  // namespace trireme::ckpt
