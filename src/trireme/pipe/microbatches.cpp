#include "trireme/pipe/microbatches.h"

#include <string>
#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/isclose.h>
#include <ATen/ops/tensor_split.h>

#include "trireme/core/error.h"

namespace trireme::pipe {
namespace {

// `dim` counted from the front, of a tensor that has one.
int64_t dim_of(const at::Tensor& tensor, int64_t dim, const std::string& where) {
  const int64_t dims = tensor.dim();
  if (dims == 0)
    throw InvalidArgument(text(
        "[pipe] ",
        where,
        ": expected a tensor with dims, got one of 0 dims; replicate "
        "it (SplitSpec), fold it or take the equal one (MergeSpec)"));
  if (dim < -dims || dim >= dims)
    throw InvalidArgument(text(
        "[pipe] ",
        where,
        ": expected a dim in [",
        -dims,
        ", ",
        dims,
        "), got ",
        dim,
        " for sizes ",
        tensor.sizes(),
        "; correct the spec of this tensor"));
  return dim < 0 ? dim + dims : dim;
}

void check_spec_count(size_t specs, size_t tensors) {
  if (specs != 0 && specs != tensors)
    throw InvalidArgument(text(
        "[pipe] expected a spec for each of ",
        tensors,
        " tensors or none at all, got ",
        specs,
        "; give one a tensor, also for an undefined one"));
}

std::vector<at::Tensor> cut(
    const at::Tensor& tensor, int pieces, const SplitSpec& spec, size_t number) {
  if (!tensor.defined() || spec.replicate)
    return std::vector<at::Tensor>(static_cast<size_t>(pieces), tensor);
  const int64_t dim =
      dim_of(tensor, spec.dim, text("tensor ", number, " of the batch"));
  if (tensor.size(dim) < pieces)
    throw InvalidArgument(text(
        "[pipe] tensor ",
        number,
        " of the batch: expected at least ",
        pieces,
        " rows for as many microbatches, got ",
        tensor.size(dim),
        " (sizes ",
        tensor.sizes(),
        ", dim ",
        dim,
        "); take a larger batch or fewer microbatches, or replicate the tensor"));
  return at::tensor_split(tensor, pieces, dim);
}

bool is_equal(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_same(b))
    return true;
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes())
    return false;
  // The second look, for NaN, is seldom needed.
  return at::equal(a, b) ||
         at::isclose(a, b, 0, 0, /*equal_nan=*/true).all().item<bool>();
}

// One tensor of all chunks.
class Column {
 public:
  Column(const std::vector<Tensors>& chunks, size_t number) : number_(number) {
    for (const Tensors& chunk : chunks)
      tensors_.push_back(chunk[number]);
    for (size_t i = 1; i < tensors_.size(); ++i)
      if (tensors_[i].defined() != tensors_[0].defined())
        refuse(
            "it in all chunks or in none",
            text("none in chunk ", tensors_[i].defined() ? 0 : i),
            "fill it in, or leave it out");
  }

  at::Tensor merge(const MergeSpec& spec) const {
    if (!tensors_[0].defined() && spec.how != MergeSpec::How::Fold)
      return {};
    switch (spec.how) {
      case MergeSpec::How::Concat:
        return concat(spec);
      case MergeSpec::How::Fold:
        return fold(spec);
      case MergeSpec::How::Equal:
        return first_of_equals();
    }
    TRIREME_ASSERT(false);
  }

 private:
  at::Tensor concat(const MergeSpec& spec) const {
    const int64_t dim = dim_of(tensors_[0], spec.dim, text("tensor ", number_));
    auto wanted = tensors_[0].sizes().vec();
    for (size_t i = 1; i < tensors_.size(); ++i) {
      const at::Tensor& tensor = tensors_[i];
      if (tensor.dim() == tensors_[0].dim())
        wanted[static_cast<size_t>(dim)] = tensor.size(dim);
      if (tensor.sizes() != wanted || tensor.scalar_type() != tensors_[0].scalar_type())
        refuse(
            text("chunks that differ along dim ", dim, " only"),
            text(describe(0), " and ", describe(i)),
            "fold them, or choose another dim");
    }
    return at::cat(tensors_, dim);
  }

  at::Tensor fold(const MergeSpec& spec) const {
    if (!spec.fold)
      refuse("a function to fold with", "none", "set MergeSpec::fold");
    if (!tensors_[0].defined())
      return spec.initial;
    const bool begins = spec.initial.defined();
    at::Tensor so_far = begins ? spec.initial : tensors_[0];
    for (size_t i = begins ? 0 : 1; i < tensors_.size(); ++i)
      so_far = spec.fold(so_far, tensors_[i]);
    return so_far;
  }

  at::Tensor first_of_equals() const {
    for (size_t i = 1; i < tensors_.size(); ++i)
      if (!is_equal(tensors_[0], tensors_[i]))
        refuse(
            "equal chunks",
            text(describe(0), " and ", describe(i), ", which differ"),
            "concatenate or fold what differs from microbatch to microbatch");
    return tensors_[0];
  }

  std::string describe(size_t chunk) const {
    const at::Tensor& tensor = tensors_[chunk];
    return text("chunk ", chunk, " of ", tensor.scalar_type(), " ", tensor.sizes());
  }

  [[noreturn]] void refuse(
      const std::string& wanted, const std::string& got, const char* remedy) const {
    throw InvalidArgument(text(
        "[pipe] tensor ", number_, ": expected ", wanted, ", got ", got, "; ", remedy));
  }

  size_t number_;
  std::vector<at::Tensor> tensors_;
};

}  // namespace

std::vector<Tensors> split(
    const Tensors& batch, int microbatches, const std::vector<SplitSpec>& specs) {
  if (microbatches < 1)
    throw InvalidArgument(text(
        "[pipe] expected at least 1 microbatch, got ",
        microbatches,
        "; give a number above 0"));
  check_spec_count(specs.size(), batch.size());
  std::vector<Tensors> out(static_cast<size_t>(microbatches));
  for (size_t i = 0; i < batch.size(); ++i) {
    auto pieces =
        cut(batch[i], microbatches, specs.empty() ? SplitSpec{} : specs[i], i);
    for (size_t m = 0; m < out.size(); ++m)
      out[m].push_back(std::move(pieces[m]));
  }
  return out;
}

Tensors merge(const std::vector<Tensors>& chunks, const std::vector<MergeSpec>& specs) {
  if (chunks.empty())
    throw InvalidArgument(
        "[pipe] expected at least 1 chunk to merge, got none; give what the "
        "microbatches made");
  const size_t tensors = chunks[0].size();
  for (size_t i = 1; i < chunks.size(); ++i)
    if (chunks[i].size() != tensors)
      throw InvalidArgument(text(
          "[pipe] expected chunks with as many tensors each, got ",
          tensors,
          " in chunk 0 and ",
          chunks[i].size(),
          " in chunk ",
          i,
          "; put an undefined tensor in the place of one that is absent"));
  check_spec_count(specs.size(), tensors);
  Tensors out;
  for (size_t i = 0; i < tensors; ++i)
    out.push_back(Column(chunks, i).merge(specs.empty() ? MergeSpec{} : specs[i]));
  return out;
}

std::optional<int64_t> rows(
    const Tensors& tensors, const std::vector<SplitSpec>& specs) {
  check_spec_count(specs.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const SplitSpec spec = specs.empty() ? SplitSpec{} : specs[i];
    if (tensors[i].defined() && tensors[i].dim() > 0 && !spec.replicate)
      return tensors[i].size(dim_of(tensors[i], spec.dim, text("tensor ", i)));
  }
  return std::nullopt;
}

}  // namespace trireme::pipe
