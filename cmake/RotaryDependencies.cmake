# Every dependency of rotary, in one place. An installed one is used if it is new enough;
# otherwise, and only with ROTARY_FETCH_DEPENDENCIES=ON, the tag named here is downloaded.

# rotary_dependency(<package> <oldest version> <Debian package> <repository> <tag>)
macro(rotary_dependency package version debian repository tag)
  find_package(${package} ${version} CONFIG QUIET)
  if(NOT ${package}_FOUND)
    if(NOT ROTARY_FETCH_DEPENDENCIES)
      message(FATAL_ERROR
        "rotary needs ${package} ${version} or newer. Install it (Debian and Ubuntu: ${debian}; "
        "the make targets do so) or configure with -DROTARY_FETCH_DEPENDENCIES=ON.")
    endif()
    include(FetchContent)
    message(STATUS "rotary: downloading ${package} ${tag}")
    FetchContent_Declare(${package} GIT_REPOSITORY ${repository} GIT_TAG ${tag}
                         GIT_SHALLOW ON SYSTEM)
    FetchContent_MakeAvailable(${package})
  endif()
endmacro()

# The library: reads config.json and the headers of .safetensors.
rotary_dependency(nlohmann_json 3.9 nlohmann-json3-dev
                  https://github.com/nlohmann/json.git v3.11.3)

# The CPU engine: vector instructions behind one interface, chosen at run time.
if(ROTARY_FETCH_DEPENDENCIES)  # in the cache: Highway's policies would forget plain variables
  foreach(part IN ITEMS TESTS EXAMPLES CONTRIB)
    set(HWY_ENABLE_${part} OFF CACHE BOOL "Part of Highway that rotary does without")
  endforeach()
endif()
rotary_dependency(hwy 1.0.3 libhwy-dev https://github.com/google/highway.git 1.0.7)

if(NOT TARGET hwy::hwy)
  add_library(hwy::hwy ALIAS hwy)
endif()

# Threads. Part of the compiler; a build without it runs on the caller's thread or pool.
set(ROTARY_HAS_OPENMP OFF)
if(ROTARY_OPENMP)
  find_package(OpenMP QUIET COMPONENTS CXX)
  set(ROTARY_HAS_OPENMP ${OpenMP_CXX_FOUND})
endif()

if(ROTARY_BUILD_TOOLS)
  rotary_dependency(CLI11 2.1 libcli11-dev https://github.com/CLIUtils/CLI11.git v2.4.2)
  rotary_dependency(fmt 9.0 libfmt-dev https://github.com/fmtlib/fmt.git 10.2.1)
endif()

# RoFormer's tokenisers: categories, case and decompositions of Unicode. Debian's has no CMake
# package; from 2.5 on the tables are those of Unicode 13 or newer.
if(ROTARY_BUILD_ROFORMER)
  find_package(Threads REQUIRED)
  find_package(Utf8proc 2.5 MODULE QUIET)
  if(NOT Utf8proc_FOUND)
    if(NOT ROTARY_FETCH_DEPENDENCIES)
      message(FATAL_ERROR
        "RoFormer needs utf8proc 2.5 or newer. Install it (Debian and Ubuntu: libutf8proc-dev; the "
        "make targets do so) or configure with -DROTARY_FETCH_DEPENDENCIES=ON.")
    endif()
    include(FetchContent)
    FetchContent_Declare(utf8proc GIT_REPOSITORY https://github.com/JuliaStrings/utf8proc.git
                         GIT_TAG v2.9.0 GIT_SHALLOW ON SYSTEM)
    FetchContent_MakeAvailable(utf8proc)
    add_library(Utf8proc::Utf8proc ALIAS utf8proc)
  endif()
endif()

if(ROTARY_BUILD_TESTS)
  set(INSTALL_GTEST OFF)
  rotary_dependency(GTest 1.12 "libgtest-dev libgmock-dev"
                    https://github.com/google/googletest.git v1.14.0)
  # The oracle. Not a CMake package, and never downloaded: its build is autotools.
  find_package(MPFR 4.0 REQUIRED)
  find_package(Threads REQUIRED)
endif()

if(ROTARY_BUILD_BENCHMARKS)
  set(BENCHMARK_ENABLE_TESTING OFF)
  set(BENCHMARK_ENABLE_INSTALL OFF)
  rotary_dependency(benchmark 1.7 libbenchmark-dev
                    https://github.com/google/benchmark.git v1.8.5)
endif()
