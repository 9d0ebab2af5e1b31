"""Java's hash of a text, by which Kafka spreads names over partitions and threads."""


def java_hash(text: str) -> int:
    """Compute Java's String.hashCode: a signed 32-bit number over the text's UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
