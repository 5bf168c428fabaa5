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

# A static module hands the packages that it links on to those who link it, private ones too:
# whoever finds Trireme has to find them first.
get_target_property(modules trireme_all INTERFACE_LINK_LIBRARIES)
set(links "")
foreach(module IN LISTS modules)
  if(TARGET ${module})   # CMake puts marks of its own between the names
    get_target_property(more ${module} INTERFACE_LINK_LIBRARIES)
    string(APPEND links ";${more}")
  endif()
endforeach()
set(TRIREME_FIND_DEPENDENCIES "")
set(components_of_MPI " COMPONENTS CXX")   # or it would ask for every language of the project
foreach(package IN ITEMS Threads nlohmann_json tomlplusplus OpenSSL MPI)
  if(links MATCHES "${package}::")
    string(APPEND TRIREME_FIND_DEPENDENCIES
      "find_dependency(${package}${components_of_${package}})\n")
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
