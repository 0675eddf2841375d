"""Two versions of a small schema as descriptor sets, for the picture of `xds compat`."""


def write(directory):
    old = [("name", 1, _STRING), ("weight", 2, _UINT32), ("zone", 3, _STRING)]
    new = [("name", 1, _STRING), ("weight", 2, _STRING), ("region", 3, _STRING)]
    for name, fields in [("old.binpb", old), ("new.binpb", new)]:
        (directory / name).write_bytes(_descriptor_set(fields))


# Values of google.protobuf.FieldDescriptorProto.Type.
_STRING, _UINT32 = 9, 13


def _descriptor_set(fields):
    message = _bytes(1, b"Gadget")
    for name, number, kind in fields:
        # name, number, label optional, type
        message += _bytes(2, _bytes(1, name.encode()) + _number(3, number) + _number(4, 1) + _number(5, kind))
    file = _bytes(1, b"acme/gadget.proto") + _bytes(2, b"acme") + _bytes(4, message) + _bytes(12, b"proto3")
    return _bytes(1, file)


def _bytes(number, value):
    length = len(value)
    low = [length] if length < 128 else [length & 127 | 128, length >> 7]
    return bytes([number << 3 | 2, *low]) + value


def _number(number, value):
    return bytes([number << 3, value])
