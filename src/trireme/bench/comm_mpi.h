// MPI's own collectives, without Trireme: the second peer of `bench comm --backend
// mpi`.
#pragma once
#include <span>

namespace trireme::bench {

/// MPI_Allreduce on the whole world: everybody's values become their sum. MPI must run;
/// NotSupported in a build without it.
void mpi_all_reduce(std::span<float> values);
/// MPI_Barrier on the whole world.
void mpi_barrier();

}  // namespace trireme::bench
