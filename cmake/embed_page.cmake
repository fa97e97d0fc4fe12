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
file(READ ${OUT}.text bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUT} "#include <stddef.h>
extern const unsigned char tt_${NAME}[];
extern const size_t tt_${NAME}_bytes;
const unsigned char tt_${NAME}[] = {
${bytes}
};
const size_t tt_${NAME}_bytes = sizeof(tt_${NAME});
")
