# What `cmake --install` puts down beside the modules (trireme_add_module sees to those): the
# programs, and the files that let an outside project say find_package(Trireme).
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Trireme")

foreach(program IN ITEMS trireme trireme-torch trireme-bench)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  endif()
endforeach()
if(TARGET trireme-torch)
  # libtorch seldom lies where the loader looks. INSTALL_RPATH_USE_LINK_PATH would not do: it
  # leaves out folders inside the source tree, as .deps/venv is.
  set_target_properties(trireme-torch trireme-bench PROPERTIES
    INSTALL_RPATH "${TRIREME_TORCH}/lib")
endif()

if(TARGET trireme-torch)
  install(DIRECTORY "${PROJECT_BINARY_DIR}/share/trireme/text"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/trireme")
endif()
install(FILES "${PROJECT_SOURCE_DIR}/bench/peers/comm.py" "${PROJECT_SOURCE_DIR}/bench/peers/ddp.py"
  "${PROJECT_SOURCE_DIR}/bench/peers/pipe.py"
  "${PROJECT_SOURCE_DIR}/bench/peers/schedule.py" "${PROJECT_SOURCE_DIR}/bench/peers/train.py"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/trireme/peers")

# What each module needs of others, those of the modules below it included: whoever asks for a
# component has to find that first. (MPI and OpenSSL are found there if they can be; see
# TriremeConfig.cmake.in.)
function(trireme_needs out target)
  set(needs "")
  if(target MATCHES "^trireme(::|_)net$")
    list(APPEND needs OpenSSL)
  endif()
  get_target_property(links ${target} INTERFACE_LINK_LIBRARIES)
  foreach(link IN LISTS links)
    if(link MATCHES "^trireme(::|_)" AND TARGET ${link})
      trireme_needs(more ${link})
      list(APPEND needs ${more})
    endif()
    foreach(package IN ITEMS Threads Libtorch)
      if(link MATCHES "${package}::")
        list(APPEND needs ${package})
      endif()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES needs)
  set(${out} ${needs} PARENT_SCOPE)
endfunction()
get_target_property(modules trireme_all INTERFACE_LINK_LIBRARIES)
set(TRIREME_MODULE_NEEDS "")
foreach(module IN LISTS modules)
  if(TARGET ${module})   # CMake puts marks of its own between the names
    trireme_needs(needs ${module})
    string(REGEX REPLACE "^trireme_" "" component ${module})
    string(APPEND TRIREME_MODULE_NEEDS "set(_trireme_needs_${component} ${needs})\n")
    list(APPEND TRIREME_COMPONENTS ${component})
  endif()
endforeach()

# The ABI of libtorch is the same only within a minor version.
string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" libtorch_minor "${Libtorch_VERSION}")
math(EXPR next_minor "${CMAKE_MATCH_2} + 1")
set(TRIREME_LIBTORCH_RANGE "${libtorch_minor}...<${CMAKE_MATCH_1}.${next_minor}")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/TriremeConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/TriremeConfig.cmake" INSTALL_DESTINATION "${package_dir}")
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/TriremeConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/TriremeConfig.cmake" "${PROJECT_BINARY_DIR}/TriremeConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/FindLibtorch.cmake"
  DESTINATION "${package_dir}")
install(TARGETS trireme_all EXPORT TriremeTargets)
if(TARGET trireme_testing)   # a set of its own, since only those who ask for it need GoogleTest
  install(EXPORT TriremeTestingTargets NAMESPACE trireme:: DESTINATION "${package_dir}")
endif()
install(EXPORT TriremeTargets NAMESPACE trireme:: DESTINATION "${package_dir}")
