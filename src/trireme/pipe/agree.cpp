#include "trireme/pipe/agree.h"

#include <string>

#include "trireme/core/error.h"
#include "trireme/pipe/gather_rows.h"
#include "trireme/pipe/rank_text.h"

namespace trireme::pipe {

void agree(const comm::Group& group, const std::function<void()>& check) {
  std::exception_ptr mine;
  std::string what;
  try {
    check();
  } catch (const std::exception& error) {
    mine = std::current_exception();
    what = error.what();
  }
  std::vector<int64_t> letters(what.begin(), what.end());
  if (mine)
    letters.push_back(0);  // an error may have no text
  const auto all = gather_rows(group, letters);
  if (mine)
    std::rethrow_exception(mine);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty())
      continue;
    std::string theirs;
    for (size_t i = 0; i + 1 < all[rank].size(); ++i)
      theirs.push_back(static_cast<char>(all[rank][i]));
    const int world_rank = group.members()[rank];
    throw PeerError(
        world_rank,
        text(
            "[pipe] ",
            rank_text(static_cast<int>(rank), group.members()),
            ": ",
            theirs));
  }
}

}  // namespace trireme::pipe
