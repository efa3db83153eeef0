# All dependencies of rotary. An installed one is used if it is new enough;
# otherwise, only with ROTARY_FETCH_DEPENDENCIES=ON, the tag given here is downloaded.

if(EMSCRIPTEN)
  include(RotaryWasm)
  return()
endif()

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

# The library: config.json and the headers of .safetensors files.
rotary_dependency(nlohmann_json 3.9 nlohmann-json3-dev
                  https://github.com/nlohmann/json.git v3.11.3)

# The CPU engine: SIMD with dispatch at run time.
if(ROTARY_FETCH_DEPENDENCIES)  # cache entries: Highway's CMake policies ignore plain variables
  foreach(part IN ITEMS TESTS EXAMPLES CONTRIB)
    set(HWY_ENABLE_${part} OFF CACHE BOOL "Part of Highway that rotary does not use")
  endforeach()
endif()
rotary_dependency(hwy 1.0.3 libhwy-dev https://github.com/google/highway.git 1.0.7)

if(NOT TARGET hwy::hwy)
  add_library(hwy::hwy ALIAS hwy)
endif()

# Threads: OpenMP, if the compiler has it; without it, calls run on the caller's thread or pool.
set(ROTARY_HAS_OPENMP OFF)
if(ROTARY_OPENMP)
  find_package(OpenMP QUIET COMPONENTS CXX)
  set(ROTARY_HAS_OPENMP ${OpenMP_CXX_FOUND})
endif()

if(ROTARY_BUILD_TOOLS)
  rotary_dependency(CLI11 2.1 libcli11-dev https://github.com/CLIUtils/CLI11.git v2.4.2)
  # PNG files of `rotary map`, if there is a static libpng: the command then needs no other package.
  find_path(ROTARY_PNG_INCLUDE png.h)
  find_library(ROTARY_PNG_ARCHIVE libpng16.a)
  find_library(ROTARY_ZLIB_ARCHIVE libz.a)
  mark_as_advanced(ROTARY_PNG_INCLUDE ROTARY_PNG_ARCHIVE ROTARY_ZLIB_ARCHIVE)
  set(ROTARY_PNG_LIBRARIES "")
  if(ROTARY_PNG_INCLUDE AND ROTARY_PNG_ARCHIVE AND ROTARY_ZLIB_ARCHIVE)
    set(ROTARY_PNG_LIBRARIES "${ROTARY_PNG_ARCHIVE}" "${ROTARY_ZLIB_ARCHIVE}")
  endif()
endif()
if(ROTARY_BUILD_C OR ROTARY_BUILD_TOOLS OR ROTARY_BUILD_PYTHON)
  rotary_dependency(fmt 9.0 libfmt-dev https://github.com/fmtlib/fmt.git 10.2.1)
endif()

# RoFormer's tokenisers: Unicode categories, case and decompositions. Debian's package has no CMake
# config; from 2.5 on the tables are those of Unicode 13 or newer.
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

# Plots of `roformer lab`, as SVG and PNG. Optional: a lab that ran without it is drawn elsewhere, by
# `roformer lab report`.
if(ROTARY_BUILD_ROFORMER AND ROTARY_BUILD_TORCH)
  find_package(Cairo MODULE QUIET)
  if(NOT Cairo_FOUND)
    message(STATUS "rotary: no cairo (Debian and Ubuntu: libcairo2-dev): `roformer lab` draws no plots")
  endif()
  # The images of `roformer lab image`. Optional: its small setting draws shapes.
  find_package(JPEG QUIET)
  if(NOT JPEG_FOUND)
    message(STATUS "rotary: no libjpeg (Debian and Ubuntu: libjpeg-dev): `roformer lab image` reads no CIFAR-10")
  endif()
endif()

if(ROTARY_BUILD_TESTS)
  set(INSTALL_GTEST OFF)
  rotary_dependency(GTest 1.12 "libgtest-dev libgmock-dev"
                    https://github.com/google/googletest.git v1.14.0)
  # The reference of the tests. No CMake package, and never downloaded: it is built with autotools.
  find_package(MPFR 4.0 REQUIRED)
  find_package(Threads REQUIRED)
endif()
