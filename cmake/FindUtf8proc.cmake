# Finds utf8proc, a library of Unicode tables; defines Utf8proc::Utf8proc.
find_path(UTF8PROC_INCLUDE_DIR utf8proc.h)
find_library(UTF8PROC_LIBRARY utf8proc)
mark_as_advanced(UTF8PROC_INCLUDE_DIR UTF8PROC_LIBRARY)

if(UTF8PROC_INCLUDE_DIR)
  file(STRINGS "${UTF8PROC_INCLUDE_DIR}/utf8proc.h" UTF8PROC_VERSION
       REGEX "^#define UTF8PROC_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "#define UTF8PROC_VERSION_[A-Z]+ ([0-9]+)[^;]*" "\\1"
         UTF8PROC_VERSION "${UTF8PROC_VERSION}")
  list(JOIN UTF8PROC_VERSION "." UTF8PROC_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Utf8proc
  REQUIRED_VARS UTF8PROC_LIBRARY UTF8PROC_INCLUDE_DIR
  VERSION_VAR UTF8PROC_VERSION
  REASON_FAILURE_MESSAGE "Debian and Ubuntu: libutf8proc-dev")

if(Utf8proc_FOUND AND NOT TARGET Utf8proc::Utf8proc)
  add_library(Utf8proc::Utf8proc UNKNOWN IMPORTED)
  set_target_properties(Utf8proc::Utf8proc PROPERTIES
    IMPORTED_LOCATION "${UTF8PROC_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${UTF8PROC_INCLUDE_DIR}")
endif()
