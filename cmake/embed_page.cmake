# Makes one file of a template and its parts and writes it as a C array tt_${NAME}[], with tt_${NAME}_bytes, to ${OUT}.
# ${TEMPLATE} names each part where it belongs: @file@, for the *.css and *.js of the folders ${PARTS}. Other @words@ stay:
# the program puts a report's data at @DATA@.

file(READ ${TEMPLATE} text)
foreach(folder ${PARTS})
  file(GLOB parts ${folder}/*.css ${folder}/*.js)
  foreach(part ${parts})
    get_filename_component(name ${part} NAME)
    file(READ ${part} inside)
    string(REPLACE "@${name}@" "${inside}" text "${text}")
  endforeach()
endforeach()
file(WRITE ${OUT}.text "${text}")
set(FROM ${OUT}.text)
include(${CMAKE_CURRENT_LIST_DIR}/embed_bytes.cmake)
