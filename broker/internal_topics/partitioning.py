"""Which partition of its topic a group or a transactional id lives in: as Kafka's partitionFor has it."""


def java_hash(text: str) -> int:
    """Java's String.hashCode: a signed 32-bit number over the text's UTF-16 units."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(data), 2):
        value = (31 * value + (data[at] << 8 | data[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(name: str, partition_count: int) -> int:
    """Utils.abs(hash) % count, where the absolute value of the smallest number is 0."""
    value = java_hash(name)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count
