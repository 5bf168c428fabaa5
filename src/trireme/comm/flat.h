// Tensors as runs of bytes: checked, contiguous, and written back where they were not.
#pragma once
#include <string_view>

#include <ATen/core/Tensor.h>

#include "trireme/comm/collective.h"
#include "trireme/comm/group.h"
#include "trireme/comm/per_rank.h"

namespace trireme::comm {

/// A tensor as one run of bytes. Reading needs a copy only if it is not contiguous;
/// writing then ends with finish().
class Flat {
 public:
  /// A tensor that is only read.
  static Flat input(
      const Group& group, std::string_view call, const at::Tensor& tensor);
  /// A tensor that is read and written, or only written.
  static Flat output(
      const Group& group, std::string_view call, const at::Tensor& tensor);

  const at::Tensor& tensor() const { return original_; }
  c10::ScalarType dtype() const;
  int64_t count() const { return flat_.numel() * (as_real_ ? 2 : 1); }
  Piece piece() const;
  /// Part `index` of `parts` equal ones.
  Piece part(int index, int parts) const;
  /// Writes back to a tensor that is not contiguous, and tells autograd of the change.
  void finish() const;
  /// Sees complex numbers as pairs of real ones: enough for a sum.
  void view_as_real() { as_real_ = flat_.is_complex(); }

 private:
  Flat(const at::Tensor& original, at::Tensor flat);
  at::Tensor original_;
  at::Tensor flat_;
  bool as_real_ = false;
};

/// InvalidArgument unless 0 <= root < size.
void check_root(const Group& group, std::string_view call, int root);
/// InvalidArgument if what is given and what is taken share memory: a peer could read
/// what has been overwritten. `own` may be both, at the same place.
void check_no_overlap(
    std::string_view call,
    PerRank<Piece> give,
    PerRank<Piece> take,
    const Piece& own = {});
/// InvalidArgument unless both have the same dtype.
void check_same_dtype(std::string_view call, const Flat& a, const Flat& b);

}  // namespace trireme::comm
