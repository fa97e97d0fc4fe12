# The targets of the build: one static library per top folder of src/, schemas (proto/), one program, and one test program
# per tests/unit/<folder>/test_<module>.c. Files are found by globbing: a new file needs no entry here.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON) # GNU C17: statement attributes, __int128, POSIX
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

option(TUTTI_WERROR "warnings are errors" ON)
option(TUTTI_FUZZ "build the fuzzers; needs clang" OFF)
option(TUTTI_HARDEN "stack protector, fortified libc calls, read-only relocations, PIE; off under sanitizers" ON)
set(TUTTI_PROFILE "" CACHE STRING "generate or use a profile of the program: see scripts/profiled_build.sh; needs GCC")
option(TUTTI_COVERAGE "instrument for scripts/coverage.sh" OFF)
set(TUTTI_SANITIZE "" CACHE STRING "sanitizers to build with: address,undefined or thread")

# Assertions stay on: they are part of the program. -g1 names functions and lines in a backtrace and saves a seventh of
# the compile time of -g; the Debug preset has variables too. Sanitizers at -O2 take 1.6 times the compile time of -O1.
if(TUTTI_SANITIZE)
  set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g1")
else()
  set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g1")
endif()

add_compile_options(-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wconversion
  -Wvla -Wundef -Wformat=2 -Wno-missing-field-initializers -fno-omit-frame-pointer
  # clang would also demand the sentinels of protobuf-c's enums
  $<$<C_COMPILER_ID:GNU>:-Wswitch-enum>)
add_compile_definitions(_GNU_SOURCE)
if(TUTTI_WERROR)
  add_compile_options(-Werror)
endif()
if(TUTTI_SANITIZE)
  # GCC's warnings of lengths are wrong in places at -O1 and beside sanitizers: those of the plain build are errors.
  add_compile_options(-fsanitize=${TUTTI_SANITIZE} -fno-sanitize-recover=all
    $<$<C_COMPILER_ID:GNU>:-Wno-error$<SEMICOLON>-Wno-format-truncation$<SEMICOLON>-Wno-stringop-overread>)
  add_link_options(-fsanitize=${TUTTI_SANITIZE})
elseif(TUTTI_HARDEN)
  # -fPIE, not -fPIC: functions of one program cannot be replaced, so they may be inlined. With -z now, calls into
  # shared libraries need no stub. Shadow stacks (return) cost nothing; branch targets would cost 1.3 % of all
  # instructions and are not enforced by Linux for programs.
  add_compile_options(-fstack-protector-strong -fstack-clash-protection -fno-plt
    $<$<NOT:$<IN_LIST:$<TARGET_PROPERTY:TYPE>,MODULE_LIBRARY$<SEMICOLON>SHARED_LIBRARY>>:-fPIE>
    $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>) # it needs an optimising compiler
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    add_compile_options(-fcf-protection=return)
  endif()
  add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-pie>)
endif()
if(TUTTI_PROFILE STREQUAL "generate")
  add_compile_options(-fprofile-generate -fprofile-update=atomic)
  add_link_options(-fprofile-generate)
elseif(TUTTI_PROFILE STREQUAL "use")
  # What was not run is compiled as ever. No warnings (-w): what is inlined by a profile misleads them, and other builds have checked
  # the same sources.
  add_compile_options(-fprofile-use -fprofile-partial-training -w)
  set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON) # functions of several files become one where that is faster
endif()
if(TUTTI_COVERAGE)
  add_compile_options(--coverage -fprofile-update=atomic)
  add_link_options(--coverage)
endif()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
set(TUTTI_DEPS ${PROJECT_SOURCE_DIR}/.deps CACHE PATH "what scripts/setup.sh unpacked")
list(APPEND CMAKE_PREFIX_PATH ${TUTTI_DEPS}/usr)

function(tutti_pkg target module)
  pkg_check_modules(${module} REQUIRED QUIET IMPORTED_TARGET GLOBAL ${module})
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_link_libraries(${target} INTERFACE PkgConfig::${module})
endfunction()
tutti_pkg(libuv::libuv libuv)
tutti_pkg(nghttp2::nghttp2 libnghttp2)
tutti_pkg(zlib::zlib zlib)
tutti_pkg(jansson::jansson jansson)
tutti_pkg(protobuf-c::protobuf-c libprotobuf-c)
tutti_pkg(openssl::crypto libcrypto)
tutti_pkg(openssl::ssl libssl)
tutti_pkg(cmocka::cmocka cmocka)

find_path(LLHTTP_INCLUDE llhttp.h REQUIRED)
find_library(LLHTTP_LIBRARY NAMES libllhttp.a llhttp REQUIRED PATH_SUFFIXES x86_64-linux-gnu)
add_library(llhttp::llhttp UNKNOWN IMPORTED)
set_target_properties(llhttp::llhttp PROPERTIES IMPORTED_LOCATION ${LLHTTP_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${LLHTTP_INCLUDE})

set(ONNXRUNTIME_ROOT "" CACHE PATH "an ONNX Runtime of your own: its include/ is compiled against, its lib/ loaded")
# Where a program of the build tree finds the library; an installed one looks beside itself first.
if(ONNXRUNTIME_ROOT)
  set(TUTTI_ONNXRUNTIME_FOUND_AT TUTTI_ONNXRUNTIME_LIBRARY="${ONNXRUNTIME_ROOT}/lib/libonnxruntime.so")
else()
  set(TUTTI_ONNXRUNTIME_FOUND_AT TUTTI_ONNXRUNTIME_LIBRARY="${TUTTI_DEPS}/lib/libonnxruntime.so")
endif()
find_path(ONNXRUNTIME_INCLUDE onnxruntime_c_api.h REQUIRED
  HINTS ${ONNXRUNTIME_ROOT}/include PATH_SUFFIXES onnxruntime onnxruntime/core/session)

find_program(PROTOC_C protoc-c REQUIRED)
find_program(PROTOC protoc REQUIRED)

# Every proto/*.proto becomes part of the library tutti_proto; include "<name>.pb-c.h".
function(tutti_proto)
  file(GLOB schemas CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/proto/*.proto)
  set(out ${PROJECT_BINARY_DIR}/proto)
  file(MAKE_DIRECTORY ${out})
  set(generated "")
  foreach(schema ${schemas})
    get_filename_component(name ${schema} NAME_WE)
    add_custom_command(OUTPUT ${out}/${name}.pb-c.c ${out}/${name}.pb-c.h
      COMMAND ${PROTOC_C} --c_out=${out} -I ${PROJECT_SOURCE_DIR}/proto ${schema}
      DEPENDS ${schemas} VERBATIM)
    list(APPEND generated ${out}/${name}.pb-c.c)
  endforeach()
  # The schemas themselves, for gRPC's reflection: the array tt_grpc_schemas.
  set(set_file ${out}/grpc_schemas.descriptors)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_bytes.cmake)
  file(GLOB services ${PROJECT_SOURCE_DIR}/proto/grpc_*.proto)
  add_custom_command(OUTPUT ${out}/grpc_schemas.c
    COMMAND ${PROTOC} --include_imports --descriptor_set_out=${set_file} -I ${PROJECT_SOURCE_DIR}/proto ${services}
    COMMAND ${CMAKE_COMMAND} -DFROM=${set_file} -DNAME=grpc_schemas -DOUT=${out}/grpc_schemas.c -P ${script}
    DEPENDS ${schemas} ${script} VERBATIM)
  list(APPEND generated ${out}/grpc_schemas.c)
  file(WRITE ${out}/empty.c "extern int tutti_proto_is_a_library;\n")
  add_library(tutti_proto STATIC ${out}/empty.c ${generated})
  set_source_files_properties(${generated} PROPERTIES COMPILE_OPTIONS -w)
  target_compile_options(tutti_proto PRIVATE -fPIC) # see tutti_shared_library
  target_include_directories(tutti_proto SYSTEM PUBLIC ${out})
  target_link_libraries(tutti_proto PUBLIC protobuf-c::protobuf-c)
endfunction()

# A file of a page (folder/template of src/), with its parts of that folder and of src/charts/, as the array tt_NAME in `target`.
function(tutti_embed_page target folder template name)
  set(page ${PROJECT_SOURCE_DIR}/src/${folder})
  set(charts ${PROJECT_SOURCE_DIR}/src/charts)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake)
  set(out ${PROJECT_BINARY_DIR}/${name}.c)
  file(GLOB parts CONFIGURE_DEPENDS ${page}/*.html ${page}/*.in ${page}/*.json ${page}/*.css ${page}/*.js ${charts}/*.css ${charts}/*.js)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DTEMPLATE=${page}/${template} "-DPARTS=${page};${charts}" -DNAME=${name} -DOUT=${out} -P ${script}
    DEPENDS ${parts} ${script} VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()

# A file of src/ as the array tt_NAME in `target`.
function(tutti_embed_file target file name)
  set(from ${PROJECT_SOURCE_DIR}/src/${file})
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_bytes.cmake)
  set(out ${PROJECT_BINARY_DIR}/${name}.c)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DFROM=${from} -DNAME=${name} -DOUT=${out} -P ${script}
    DEPENDS ${from} ${script} VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()

function(tutti_layer name)
  cmake_parse_arguments(arg "" "" "LAYERS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.c)
  add_library(tutti_${name} STATIC ${sources})
  target_include_directories(tutti_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  if(name MATCHES "^(model|embed)$") # what plug-ins and programs see of us
    target_include_directories(tutti_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include)
  endif()
  if(name STREQUAL lab) # pages and their template
    tutti_embed_page(tutti_${name} lab/report/page page.html page_template)
  endif()
  if(name STREQUAL net) # the live page
    tutti_embed_page(tutti_${name} net/dashboard/page dashboard.html live_html)
    tutti_embed_page(tutti_${name} net/dashboard/page dashboard.css.in live_css)
    tutti_embed_page(tutti_${name} net/dashboard/page dashboard.js.in live_js)
    tutti_embed_page(tutti_${name} net/http openapi.json openapi)
  endif()
  if(name MATCHES "^(slicer|lab|metrics|embed)$") # they say which version they are
    target_compile_definitions(tutti_${name} PRIVATE TUTTI_VERSION="${PROJECT_VERSION}")
  endif()
  if(name STREQUAL place) # a fused multiply-add rounds otherwise: the answer would depend on the machine
    target_compile_options(tutti_${name} PRIVATE -ffp-contract=off)
  endif()
  list(TRANSFORM arg_LAYERS PREPEND tutti_)
  target_link_libraries(tutti_${name} PUBLIC ${arg_LAYERS} ${arg_LIBS})
  if(name STREQUAL engine) # what Python processes run
    tutti_embed_file(tutti_${name} engine/python/driver.py python_driver)
    tutti_embed_file(tutti_${name} engine/python/triton_python_backend_utils.py python_utils)
  endif()
  if(name STREQUAL engine)
    target_include_directories(tutti_${name} SYSTEM PUBLIC ${ONNXRUNTIME_INCLUDE})
    target_compile_definitions(tutti_${name} PRIVATE ${TUTTI_ONNXRUNTIME_FOUND_AT})
  endif()
endfunction()

function(tutti_program name)
  cmake_parse_arguments(arg "" "" "LAYERS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cmd/*.c)
  if(NOT sources)
    return()
  endif()
  add_executable(${name} ${sources})
  target_compile_definitions(${name} PRIVATE TUTTI_VERSION="${PROJECT_VERSION}")
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  # A copy of the tree with its own libraries beside ONNX Runtime runs from any folder.
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/tutti")
  list(TRANSFORM arg_LAYERS PREPEND tutti_)
  target_link_libraries(${name} PRIVATE ${arg_LAYERS})
endfunction()

# libtutti.so, of the same objects as the program. They are position-independent for a program: addresses of what is
# defined elsewhere in the library are relative to the code. That holds in a library too if nothing but the API can be
# replaced, which the list of exported symbols (src/embed/tutti.map) ensures. What refers to data of other libraries, or
# to thread-local data, must be compiled for libraries. Files are searched for both; the linker names one that is missing here.
function(tutti_shared_library)
  if(TUTTI_SANITIZE) # instrumented objects need -fPIC, and a Python without the sanitizer could not load the library
    return()
  endif()
  cmake_parse_arguments(arg "" "" "LAYERS" ${ARGN})
  set(map ${PROJECT_SOURCE_DIR}/src/embed/tutti.map)
  file(GLOB_RECURSE sources ${PROJECT_SOURCE_DIR}/src/*.c)
  set(for_libraries ${PROJECT_SOURCE_DIR}/src/model/config/config_work.c ${PROJECT_SOURCE_DIR}/src/record/record_setup.c)
  foreach(source ${sources})
    file(STRINGS ${source} found REGEX "_Thread_local|environ;|stderr" LIMIT_COUNT 1)
    if(found)
      list(APPEND for_libraries ${source})
    endif()
  endforeach()
  set_source_files_properties(${for_libraries} PROPERTIES COMPILE_OPTIONS -fPIC)
  add_library(tutti_shared SHARED ${PROJECT_SOURCE_DIR}/src/embed/embed.c)
  target_include_directories(tutti_shared PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_compile_definitions(tutti_shared PRIVATE TUTTI_VERSION="${PROJECT_VERSION}")
  list(TRANSFORM arg_LAYERS PREPEND tutti_)
  target_link_libraries(tutti_shared PRIVATE ${arg_LAYERS})
  target_link_options(tutti_shared PRIVATE -Wl,--version-script=${map} -Wl,--as-needed -Wl,-z,text)
  set_target_properties(tutti_shared PROPERTIES OUTPUT_NAME tutti VERSION ${PROJECT_VERSION} SOVERSION 0
    LINK_DEPENDS ${map} INSTALL_RPATH "$ORIGIN/tutti")
  install(TARGETS tutti_shared LIBRARY DESTINATION lib)
endfunction()

# What every test runs under: no telemetry of a library, and sanitizers that keep quiet about code that is not ours.
set(TUTTI_TEST_ENVIRONMENT "ORT_DISABLE_TELEMETRY=1"
  "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1"
  "UBSAN_OPTIONS=print_stacktrace=1"
  "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/CMake/lsan.supp:print_suppressions=0"
  "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/CMake/tsan.supp:halt_on_error=1")

# A test links its own layer (and through it the lower ones); tests run from the source tree's root. A test that
# starts threads, by pthread_create or as a line of its own says, "/* threaded */", gets the label `threads` and runs
# under ThreadSanitizer too (`make tsan` builds the target threaded_tests). One without the line "/* slow */" gets the
# label `quick` (`make quick` builds the target quick_tests). One with a line "/* plain build only: REASON */" gets the
# label `plain`, which `make asan` leaves out.
function(tutti_unit_tests)
  add_custom_target(threaded_tests)
  add_custom_target(quick_tests)
  file(GLOB tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/unit/*/test_*.c)
  foreach(test ${tests})
    get_filename_component(name ${test} NAME_WE)
    get_filename_component(folder ${test} DIRECTORY)
    get_filename_component(layer ${folder} NAME)
    add_executable(${name} ${test})
    target_link_libraries(${name} PRIVATE tutti_${layer} cmocka::cmocka)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    target_compile_definitions(${name} PRIVATE TUTTI_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
      TUTTI_BUILD_DIR="${PROJECT_BINARY_DIR}")
    if(EXISTS ${PROJECT_SOURCE_DIR}/.deps/ucx/usr/include) # test_ucx_layout compares declarations
      target_include_directories(${name} SYSTEM PRIVATE ${PROJECT_SOURCE_DIR}/.deps/ucx/usr/include)
    endif()
    add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set(labels ${layer})
    file(STRINGS ${test} threaded REGEX "^/\\* threaded \\*/|pthread_create")
    if(threaded)
      list(APPEND labels threads)
      add_dependencies(threaded_tests ${name})
    endif()
    file(STRINGS ${test} slow REGEX "^/\\* slow \\*/")
    if(NOT slow)
      list(APPEND labels quick)
      add_dependencies(quick_tests ${name})
    endif()
    file(STRINGS ${test} plain REGEX "^/\\* plain build only: ")
    if(plain)
      list(APPEND labels plain)
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${test})
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "${TUTTI_TEST_ENVIRONMENT}" LABELS "${labels}")
  endforeach()
endfunction()

# Tests that drive the finished program from outside (tests/integration/test_*.py), and tests of the project's
# scripts (scripts/test_*.py). They get the program's path in TUTTI_PROGRAM, use the Python of .deps/venv where setup
# could make it, and end with 77 when this machine lacks what they need. TUTTI_LIBRARY is libtutti.so, or empty. A line
# "# plain build only: REASON" gives the label `plain` here.
function(tutti_python_tests)
  if(TARGET tutti_shared)
    set(library $<TARGET_FILE:tutti_shared>)
  endif()
  file(GLOB tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/integration/test_*.py
    ${PROJECT_SOURCE_DIR}/scripts/test_*.py)
  foreach(test ${tests})
    get_filename_component(name ${test} NAME_WE)
    get_filename_component(folder ${test} DIRECTORY)
    get_filename_component(label ${folder} NAME)
    set(labels ${label})
    file(STRINGS ${test} plain REGEX "^# plain build only: ")
    if(plain)
      list(APPEND labels plain)
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${test})
    add_test(NAME ${name} COMMAND ${PROJECT_SOURCE_DIR}/scripts/test_python.sh ${test}
      WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES LABELS "${labels}" SKIP_RETURN_CODE 77
      ENVIRONMENT "${TUTTI_TEST_ENVIRONMENT};TUTTI_PROGRAM=$<TARGET_FILE:tutti>;TUTTI_LIBRARY=${library}")
  endforeach()
endfunction()

# What an installed program has beside itself: man pages, written from its own help (scripts/make_man.py; none where
# there is no Python), completion for bash and zsh, a systemd unit, documents, rules for Prometheus. The target `program`
# builds all that is installed, and no test.
function(tutti_packaging)
  set(packaging ${PROJECT_SOURCE_DIR}/packaging)
  add_custom_target(program DEPENDS tutti)
  if(TARGET tutti_shared)
    add_dependencies(program tutti_shared)
  endif()
  find_package(Python3 QUIET COMPONENTS Interpreter)
  if(Python3_Interpreter_FOUND AND TARGET tutti AND NOT CMAKE_CROSSCOMPILING)
    file(GLOB prose CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*.mdoc)
    set(man ${PROJECT_BINARY_DIR}/man)
    add_custom_command(OUTPUT ${man}/tutti.1
      COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/scripts/make_man.py --tutti $<TARGET_FILE:tutti> --out ${man}
      DEPENDS tutti ${prose} ${PROJECT_SOURCE_DIR}/scripts/make_man.py VERBATIM)
    add_custom_target(man ALL DEPENDS ${man}/tutti.1)
    add_dependencies(program man)
    install(DIRECTORY ${man}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
  endif()
  # Only the installation knows its prefix: `cmake --install --prefix` may differ from the configured one.
  install(CODE "
    get_filename_component(TUTTI_PREFIX \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
    configure_file(${packaging}/tutti.service.in ${PROJECT_BINARY_DIR}/packaging/tutti.service @ONLY)
    file(INSTALL ${PROJECT_BINARY_DIR}/packaging/tutti.service DESTINATION \"\${TUTTI_PREFIX}/lib/systemd/system\")
    foreach(TUTTI_ROLE scheduler frontend backend)
      set(unit ${PROJECT_BINARY_DIR}/packaging/tutti-\${TUTTI_ROLE}@.service)
      configure_file(${packaging}/tutti-node@.service.in \${unit} @ONLY)
      file(INSTALL \${unit} DESTINATION \"\${TUTTI_PREFIX}/lib/systemd/system\")
    endforeach()")
  install(FILES ${packaging}/completion/tutti.bash
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME tutti)
  install(FILES ${packaging}/completion/_tutti DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${packaging}/haproxy.cfg DESTINATION ${CMAKE_INSTALL_DATADIR}/tutti)
  install(DIRECTORY ${packaging}/monitoring ${packaging}/kubernetes DESTINATION ${CMAKE_INSTALL_DATADIR}/tutti)
  install(PROGRAMS ${packaging}/slurm/tutti.sbatch DESTINATION ${CMAKE_INSTALL_DATADIR}/tutti/slurm)
  # README's links hold in the installed tree too.
  set(root ${PROJECT_SOURCE_DIR})
  install(FILES ${root}/LICENSE ${root}/README.md ${root}/CHANGELOG.md ${root}/CONTRIBUTING.md ${root}/REQUIREMENTS.md
    ${root}/SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(DIRECTORY ${root}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN man EXCLUDE)
  install(DIRECTORY ${root}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
endfunction()

# tests/fuzz/fuzz_*.c, one libFuzzer program each, linked with every layer; scripts/fuzz.sh configures for it.
function(tutti_fuzzers)
  add_custom_target(fuzzers)
  file(GLOB fuzzers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/fuzz_*.c)
  foreach(fuzzer ${fuzzers})
    get_filename_component(name ${fuzzer} NAME_WE)
    add_executable(${name} EXCLUDE_FROM_ALL ${fuzzer})
    target_link_libraries(${name} PRIVATE ${ARGN})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzzers ${name})
  endforeach()
endfunction()

# Seeds that stand in tests/fuzz/seeds/<fuzzer>/ are a test of every build.
function(tutti_seed_tests)
  file(GLOB fuzzers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/fuzz_*.c)
  foreach(fuzzer ${fuzzers})
    get_filename_component(name ${fuzzer} NAME_WE)
    file(GLOB seeds CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/seeds/${name}/*)
    if(NOT seeds)
      continue()
    endif()
    string(REPLACE fuzz_ seeds_ test ${name})
    add_executable(${test} ${fuzzer} ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_seeds.c)
    target_link_libraries(${test} PRIVATE ${ARGN})
    target_include_directories(${test} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    add_test(NAME ${test} COMMAND ${test} ${seeds} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${test} PROPERTIES ENVIRONMENT "${TUTTI_TEST_ENVIRONMENT}" LABELS fuzz)
  endforeach()
endfunction()

# examples/unfold/*.c: plug-ins (include/tutti/unfold.h), a shared object each in examples/unfold of the build tree.
# tests/plugins/faulty.c: one that does wrong, in several builds.
function(tutti_plugin name source)
  cmake_parse_arguments(arg "" "FOLDER" "DEFINES" ${ARGN})
  add_library(plugin_${name} MODULE ${source})
  set_target_properties(plugin_${name} PROPERTIES PREFIX "" OUTPUT_NAME ${name}
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${arg_FOLDER})
  target_include_directories(plugin_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_compile_definitions(plugin_${name} PRIVATE ${arg_DEFINES})
  add_dependencies(quick_tests plugin_${name}) # unit tests load them
endfunction()

function(tutti_plugins)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/unfold/*.c)
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    tutti_plugin(${name} ${source} FOLDER examples/unfold)
  endforeach()
  set(faulty ${PROJECT_SOURCE_DIR}/tests/plugins/faulty.c)
  tutti_plugin(faulty ${faulty} FOLDER tests/plugins)
  tutti_plugin(faulty_version ${faulty} FOLDER tests/plugins DEFINES FAULTY_VERSION=999)
  tutti_plugin(faulty_symbol ${faulty} FOLDER tests/plugins DEFINES FAULTY_SYMBOL)
  tutti_plugin(faulty_null ${faulty} FOLDER tests/plugins DEFINES FAULTY_NULL)
  tutti_plugin(faulty_table ${faulty} FOLDER tests/plugins DEFINES FAULTY_TABLE)
  add_dependencies(test_unfold_thread plugin_faulty)
  tutti_plugin(fault_points ${PROJECT_SOURCE_DIR}/tests/faults/fault_points.c FOLDER tests/faults)
  tutti_plugin(power_loss ${PROJECT_SOURCE_DIR}/tests/faults/power_loss.c FOLDER tests/faults)
  tutti_plugin(late_datagrams ${PROJECT_SOURCE_DIR}/tests/faults/late_datagrams.c FOLDER tests/faults)
  tutti_plugin(copy_count ${PROJECT_SOURCE_DIR}/tests/faults/copy_count.c FOLDER tests/faults)
  # NVIDIA's driver for tests of src/device; an old one lacks a function.
  set(standin ${PROJECT_SOURCE_DIR}/tests/standin/cuda_standin.c)
  tutti_plugin(cuda_standin ${standin} FOLDER tests/standin)
  tutti_plugin(cuda_standin_old ${standin} FOLDER tests/standin DEFINES STANDIN_OLD)
  # An ONNX Runtime with CUDA, over that driver.
  tutti_plugin(onnxruntime_standin ${PROJECT_SOURCE_DIR}/tests/standin/onnxruntime_standin.c FOLDER tests/standin)
  target_include_directories(plugin_onnxruntime_standin SYSTEM PRIVATE ${ONNXRUNTIME_INCLUDE})
  target_compile_definitions(plugin_onnxruntime_standin PRIVATE ${TUTTI_ONNXRUNTIME_FOUND_AT})
  target_link_libraries(plugin_onnxruntime_standin PRIVATE Threads::Threads)
  foreach(plugin plugin_cuda_standin plugin_cuda_standin_old)
    target_link_libraries(${plugin} PRIVATE Threads::Threads)
    add_dependencies(test_async_cuda ${plugin})
    add_dependencies(test_stream_faults ${plugin})
    add_dependencies(test_stream_exits ${plugin})
    add_dependencies(test_ort_gpu ${plugin} plugin_onnxruntime_standin)
  endforeach()
  foreach(test test_async_host test_async_emulated test_async_cuda)
    target_link_options(${test} PRIVATE -Wl,--wrap=calloc) # tests/unit/device/failing_calloc.h
  endforeach()
  target_link_options(test_durable_file PRIVATE -Wl,--wrap=fsync,--wrap=rename)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tutti DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endfunction()
