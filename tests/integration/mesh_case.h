// A pipeline beside others: one rank of a mesh of pipeline and data parallelism.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pipeline_case.h"
#include "trireme/comm/mesh.h"
#include "trireme/dp/stage_sync.h"

namespace trireme::pipe {

constexpr int kReplicas = 2;

/// How far gradients may lie apart: each number, or all of a tensor's.
struct Tolerance {
  double relative = 1.3e-6;
  double absolute = 1e-5;
  /// The norm of the difference as a share of the norm, in place of the two; for types
  /// of few bits, of which single numbers say little.
  double share = 0;
};

/// One rank of a mesh: a pipeline, and the sync of its stages.
struct MeshRank {
  /// Stages that talk to the other replicas get their group.
  using Maker = std::function<std::vector<StagePtr>(const comm::Group& replicas)>;
  /// The problem's own model, or the one that `make` makes.
  MeshRank(const Problem& whole, const comm::Group& world, const Maker& make = nullptr);

  StepResult step();
  void expect_gradients(const Outcome& wanted, const Tolerance& tolerance = {}) const;
  /// That the last stage's losses are those of this replica's microbatches.
  void expect_losses(const Outcome& wanted, const StepResult& got) const;

  comm::Mesh mesh;
  Problem problem;
  std::vector<StagePtr> model;
  std::shared_ptr<dp::StageSync> sync;
  std::unique_ptr<Pipeline> pipeline;
  bool has_first = false;
  bool has_last = false;
};

/// Four microbatches for each replica; alone, eight.
Problem whole_problem(const std::string& schedule, int stages);
Outcome alone(Problem problem);

}  // namespace trireme::pipe
