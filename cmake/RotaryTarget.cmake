# rotary_target_defaults(<target> [QUICK_TO_BUILD | READS_AND_PRINTS] [TEST]): the compiler flags of all our targets.
# QUICK_TO_BUILD: for targets whose own speed hardly matters, such as tests.
# READS_AND_PRINTS: for readers of files and for what prints, most of the command rotary: what compiles fastest.
# TEST: code of tests, not under test.
function(rotary_target_defaults target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "QUICK_TO_BUILD;READS_AND_PRINTS;TEST" "" "")
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
    C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    return()
  endif()

  # No contraction: only std::fma fuses, so that results are bitwise equal on every machine.
  target_compile_options(${target} PRIVATE -ffp-contract=off)

  # WebAssembly is downloaded: it has the optimisation for size of its build type throughout.
  if(arg_QUICK_TO_BUILD AND NOT EMSCRIPTEN)
    target_compile_options(${target} PRIVATE $<IF:$<CONFIG:Debug>,-O0,-O1>)
  endif()

  # GCC takes less time with -Og than with -O0, since small functions are inlined and not compiled.
  if(arg_READS_AND_PRINTS AND NOT EMSCRIPTEN)
    target_compile_options(${target} PRIVATE $<IF:$<CONFIG:Debug>,-O0,$<IF:$<CXX_COMPILER_ID:GNU>,-Og,-O1>>)
    set_target_properties(${target} PROPERTIES ROTARY_READS_AND_PRINTS ON)
  endif()

  # GCC collects garbage only once it holds 1 GB: up to a tenth less time for sources with large headers.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND ROTARY_UNITY_BUILD)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C,CXX>:--param=ggc-min-heapsize=1048576>)
  endif()

  if(PROJECT_IS_TOP_LEVEL)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
  endif()
  if(ROTARY_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
    # Not errors: these warnings come from GCC's optimiser, vary between versions and have false
    # positives inside std::string, std::vector and std::sort (GCC bugs 105651, 107986). The sanitizers
    # find the real errors.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      foreach(warning IN ITEMS array-bounds dangling-pointer free-nonheap-object maybe-uninitialized
              nonnull restrict stringop-overflow stringop-overread use-after-free)
        target_compile_options(${target} PRIVATE -Wno-error=${warning})
      endforeach()
    endif()
  endif()

  if(ROTARY_SANITIZE)
    set(flags -fsanitize=${ROTARY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_compile_options(${target} PRIVATE ${flags})
    target_link_options(${target} PRIVATE ${flags})
    # A C program that links our C++ needs the C++ part of the sanitizer run time.
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  endif()
  # Code under test of the fuzz targets counts its branches: libFuzzer is blind to what does not.
  get_target_property(type ${target} TYPE)
  if(ROTARY_BUILD_FUZZERS AND NOT arg_TEST AND type MATCHES "^(OBJECT|STATIC|SHARED)_LIBRARY$")
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# rotary_compile_together(<target> [<files>]): with ROTARY_UNITY_BUILD, a unity build of at most twelve files each, or as
# many as given, in units of equal size, for targets whose compile time is mostly that of headers.
function(rotary_compile_together target)
  if(ROTARY_UNITY_BUILD)
    list(APPEND ARGN 12)
    list(GET ARGN 0 files)
    get_target_property(sources ${target} SOURCES)
    list(LENGTH sources count)
    math(EXPR units "(${count} + ${files} - 1) / ${files}")
    math(EXPR files "(${count} + ${units} - 1) / ${units}")
    if(units EQUAL 1)
      set(files 0)  # all, sources of interface targets too, which are not counted
    endif()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${files})
  endif()
endfunction()

# rotary_precompile_standard(<target>): in the unity build of GCC, the standard headers that most sources include
# are precompiled once for all targets that read and print. Others cannot use them: GCC 12 crashes where the
# optimisation differs, and rejects them where OpenMP is on.
function(rotary_precompile_standard target)
  if(NOT ROTARY_UNITY_BUILD OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR ROTARY_SANITIZE)
    return()
  endif()
  # -fpch-preprocess: ccache sees the precompiled header.
  target_compile_options(${target} PRIVATE -fPIC -fpch-preprocess)
  if(NOT TARGET rotary_standard_headers)
    set(source "${PROJECT_BINARY_DIR}/standard_headers.cc")
    file(CONFIGURE OUTPUT "${source}" CONTENT "// Only its precompiled header is used.\n")
    add_library(rotary_standard_headers OBJECT "${source}")
    rotary_target_defaults(rotary_standard_headers READS_AND_PRINTS)
    target_compile_options(rotary_standard_headers PRIVATE -fPIC -fpch-preprocess)
    target_precompile_headers(rotary_standard_headers PRIVATE <algorithm> <array> <cmath> <cstring> <filesystem>
      <functional> <limits> <memory> <numeric> <optional> <span> <stdexcept> <string> <string_view> <variant> <vector>)
  endif()
  target_precompile_headers(${target} REUSE_FROM rotary_standard_headers)
endfunction()

# rotary_torch_defaults(<target>): further flags for a target that includes PyTorch's headers. They are
# precompiled, which takes the time of two sources and halves that of each: once for libraries, and once for
# programs, tests and other targets that READS_AND_PRINTS, since GCC optimises a source as its precompiled header was,
# and since with sanitizers only libraries count branches for the fuzz targets. Every source, an empty one too, then
# takes 6 s of CPU time, in which GCC instantiates templates that these headers have used: few and large units.
function(rotary_torch_defaults target)
  # Sizes are int64_t in PyTorch and size_t in containers, and its headers shadow names.
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang>:-Wno-shadow -Wno-pedantic>)
  rotary_compile_together(${target} 60)
  rotary_torch_compile_options(${target})
  get_target_property(reads_and_prints ${target} ROTARY_READS_AND_PRINTS)
  set(precompiled rotary_torch_precompiled)
  set(defaults "")
  if(reads_and_prints)
    set(precompiled rotary_torch_precompiled_programs)
    set(defaults READS_AND_PRINTS TEST)
  endif()
  if(NOT TARGET ${precompiled})
    rotary_precompile_torch(${precompiled} ${defaults})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${precompiled})
endfunction()

# rotary_hot_sources(<file> ... [TARGET_DIRECTORY <target>]): sources of a target with rotary_torch_defaults whose loops run
# over elements: compiled one by one with -O3, without the precompiled headers, whose optimisation GCC would give them.
# TARGET_DIRECTORY: that of a target in another folder, too.
function(rotary_hot_sources)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "TARGET_DIRECTORY" "")
  set(directories DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
  if(arg_TARGET_DIRECTORY)
    list(APPEND directories TARGET_DIRECTORY ${arg_TARGET_DIRECTORY})
  endif()
  list(TRANSFORM arg_UNPARSED_ARGUMENTS PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT ROTARY_SANITIZE)
    set_source_files_properties(${arg_UNPARSED_ARGUMENTS} ${directories} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON
      COMPILE_OPTIONS $<$<NOT:$<CONFIG:Debug>>:-O3>)
  endif()
endfunction()

# rotary_cache_precompiled(<target>): flags with which ccache sees a precompiled header (GCC), and that it may be of
# another build (Clang compares times of files otherwise).
function(rotary_cache_precompiled target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>
    "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()

# What a precompiled header and the sources that use it must agree on. Code that calls PyTorch is mostly its
# templates: with -O1 and the inlining of -O2, GCC compiles it in two thirds of the time of -O3, and a call takes the host the
# same time (CONTRIBUTING.md).
function(rotary_torch_compile_options target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fPIC>)
  get_target_property(reads_and_prints ${target} ROTARY_READS_AND_PRINTS)
  if(ROTARY_SANITIZE)  # instrumented, these templates take minutes to optimise
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O0>)
  elseif(NOT reads_and_prints)
    set(flags -O1 -finline-functions -findirect-inlining -fpartial-inlining)
    target_compile_options(${target} PRIVATE
      "$<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<NOT:$<CONFIG:Debug>>>:${flags}>")
  endif()
  rotary_cache_precompiled(${target})
  if(ROTARY_HAS_OPENMP)  # without its flag at::parallel_for, a template, runs on one thread
    target_link_libraries(${target} PRIVATE OpenMP::OpenMP_CXX)
  endif()
endfunction()

# rotary_precompile_torch(<target> [<default> ...])
function(rotary_precompile_torch target)
  set(source "${PROJECT_BINARY_DIR}/torch_precompiled.cc")
  file(CONFIGURE OUTPUT "${source}" CONTENT "// Only its precompiled header is used.\n")
  add_library(${target} OBJECT "${source}")
  rotary_target_defaults(${target} ${ARGN})
  rotary_torch_compile_options(${target})
  target_link_libraries(${target} PRIVATE ${TORCH_LIBRARIES})
  # Preprocessed only: nothing uses its object.
  set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS $<$<CXX_COMPILER_ID:GNU,Clang>:-E>)
  target_precompile_headers(${target} PRIVATE
    <ATen/Functions.h> <ATen/TensorOperators.h> <torch/library.h> <torch/nn/modules/embedding.h>
    <torch/nn/modules/linear.h>)
endfunction()

# ---- Parts: a folder, its target and its include directory ---------------------------------------
#
# Every folder of sources is a target with an include directory of its own, a folder in the build tree
# that holds one link. A header is included by the name of its folder ("rope/validate.h",
# "transformer/attention/select_kernel.h"), and only by a target that names that folder under USES: an include
# that the architecture does not allow does not compile. The test `architecture` compares these lists
# with docs/architecture.md.

# rotary_headers(<part> <folder> [USES <part> ...]): the headers of the current source directory,
# included as "<folder>/x.h": the interface target <part>_headers, with the headers of the parts that
# it uses.
function(rotary_headers part folder)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "USES")
  set(root "${PROJECT_BINARY_DIR}/headers/${part}")
  get_filename_component(parent "${root}/${folder}" DIRECTORY)
  file(MAKE_DIRECTORY "${parent}")
  file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}" "${root}/${folder}" SYMBOLIC)
  add_library(${part}_headers INTERFACE)
  target_include_directories(${part}_headers INTERFACE "${root}")
  list(TRANSFORM arg_USES APPEND _headers)
  target_link_libraries(${part}_headers INTERFACE ${arg_USES})
  string(REPLACE ";" " " uses "${arg_USES}")
  string(REPLACE "_headers" "" uses "${uses}")
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}"
             OUTPUT_VARIABLE path)
  set_property(GLOBAL APPEND PROPERTY ROTARY_ARCHITECTURE "${part} ${path}: ${uses}")
endfunction()

# rotary_part(<part> <folder> [SOURCES file ...] [USES part ...] [LIBRARIES target ...] [READS_AND_PRINTS]):
# a part with sources, as the object library <part>, whose objects its target links.
function(rotary_part part folder)
  cmake_parse_arguments(PARSE_ARGV 2 arg "READS_AND_PRINTS" "" "SOURCES;USES;LIBRARIES")
  rotary_headers(${part} ${folder} USES ${arg_USES})
  add_library(${part} OBJECT ${arg_SOURCES})
  if(arg_READS_AND_PRINTS)
    rotary_target_defaults(${part} READS_AND_PRINTS)
    rotary_precompile_standard(${part})
  else()
    rotary_target_defaults(${part})
  endif()
  set_target_properties(${part} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(${part} PRIVATE ${part}_headers ${arg_LIBRARIES})
endfunction()

# rotary_kernels(<target> <part> <file> ...): CUDA sources of a part, as a separate object library:
# nvcc does not accept the flags of C++ targets.
function(rotary_kernels target part)
  add_library(${target} OBJECT ${ARGN})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(${target} PRIVATE ${part}_headers)
  # As a flag, because CMake 3.25 does not support nvcc 13.
  target_compile_options(${target} PRIVATE -std=c++20)
endfunction()
