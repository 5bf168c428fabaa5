# Finds libtorch straight from the folders of a wheel or of a libtorch zip.
#
# TorchConfig.cmake is passed by on purpose: it stops on a CUDA wheel without a CUDA
# toolkit, and it writes absolute paths into whatever exports it.
#
# Reads   TRIREME_TORCH (cache or environment): the folder with include/ and lib/.
# Gives   Libtorch::libtorch, Libtorch_VERSION, Libtorch_CUDA (is it a CUDA build?)
if(NOT TRIREME_TORCH AND DEFINED ENV{TRIREME_TORCH})
  set(TRIREME_TORCH "$ENV{TRIREME_TORCH}")
endif()
set(TRIREME_TORCH "${TRIREME_TORCH}" CACHE PATH "Folder of libtorch: include/ and lib/")

find_path(Libtorch_INCLUDE_DIR ATen/core/Tensor.h
  PATHS "${TRIREME_TORCH}/include" NO_DEFAULT_PATH)
foreach(lib IN ITEMS torch torch_cpu c10)
  find_library(Libtorch_${lib}_LIBRARY ${lib} PATHS "${TRIREME_TORCH}/lib" NO_DEFAULT_PATH)
  mark_as_advanced(Libtorch_${lib}_LIBRARY)
endforeach()
mark_as_advanced(Libtorch_INCLUDE_DIR)

if(Libtorch_INCLUDE_DIR AND EXISTS "${Libtorch_INCLUDE_DIR}/torch/headeronly/version.h")
  set(libtorch_version_header "${Libtorch_INCLUDE_DIR}/torch/headeronly/version.h")
elseif(Libtorch_INCLUDE_DIR)
  set(libtorch_version_header
    "${Libtorch_INCLUDE_DIR}/torch/csrc/api/include/torch/version.h")
endif()
if(libtorch_version_header AND EXISTS "${libtorch_version_header}")
  file(STRINGS "${libtorch_version_header}" lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" lines "${lines}")
  list(JOIN lines "." Libtorch_VERSION)
endif()
set(Libtorch_CUDA OFF)
if(EXISTS "${TRIREME_TORCH}/lib/libtorch_cuda.so")
  set(Libtorch_CUDA ON)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libtorch
  REQUIRED_VARS Libtorch_torch_LIBRARY Libtorch_torch_cpu_LIBRARY Libtorch_c10_LIBRARY
                Libtorch_INCLUDE_DIR
  VERSION_VAR Libtorch_VERSION
  HANDLE_VERSION_RANGE
  REASON_FAILURE_MESSAGE
    "set TRIREME_TORCH to the folder that holds libtorch's include/ and lib/ (`./trireme` does it for you)")

if(Libtorch_FOUND AND NOT TARGET Libtorch::libtorch)
  add_library(Libtorch::c10 SHARED IMPORTED)
  set_target_properties(Libtorch::c10 PROPERTIES IMPORTED_LOCATION "${Libtorch_c10_LIBRARY}")
  add_library(Libtorch::cpu SHARED IMPORTED)
  set_target_properties(Libtorch::cpu PROPERTIES
    IMPORTED_LOCATION "${Libtorch_torch_cpu_LIBRARY}")
  add_library(Libtorch::libtorch INTERFACE IMPORTED)
  set_target_properties(Libtorch::libtorch PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES
      "${Libtorch_INCLUDE_DIR};${Libtorch_INCLUDE_DIR}/torch/csrc/api/include"
    INTERFACE_LINK_LIBRARIES "Libtorch::cpu;Libtorch::c10"
    # Both versions that are supported ship with the C++11 ABI.
    INTERFACE_COMPILE_DEFINITIONS "_GLIBCXX_USE_CXX11_ABI=1")
endif()
