// `model.name = "recommender"`: trainers with layers of their own, and a table of users
// and items on servers that they call. It learns who clicks on what.
#pragma once
#include <functional>
#include <string>

#include "trireme/comm/group.h"
#include "trireme/train/config.h"
#include "trireme/train/trainer.h"

namespace trireme::rpc {
struct AgentOptions;
}

namespace trireme::train {

/// The ranks of such a job: trainers first, then servers.
struct RecommenderRanks {
  int trainers = 1;
  int servers = 1;
  int all() const { return trainers + servers; }
};

/// Those that the config asks for; where it leaves trainers open, as many as there are
/// cores, and the batch can be shared among.
RecommenderRanks recommender_ranks(const Config& config, int cores);
/// Those of a world that is there. InvalidArgument if it does not fit the config.
RecommenderRanks share_ranks(const Config& config, int world_size);

/// What a job would be, for people.
std::string describe_recommender(const Config& config, const RecommenderRanks& ranks);

/// Trains, or serves, as one rank of a world. The losses are the same for any number of
/// trainers and servers, but for the order of sums. `edit` changes how workers meet.
TrainResult train_recommender(
    const comm::Group& world,
    const Config& config,
    const TrainerOptions& options,
    const std::function<void(rpc::AgentOptions&)>& edit = {});

}  // namespace trireme::train
