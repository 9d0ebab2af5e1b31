"""`format("odradek")`: the class that Spark makes with a query's options, and asks for a reader or a writer."""

from pyspark.sql.datasource import DataSource, DataSourceWriter
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from odradek.client.errors import ConfigError
from odradek.client.spark.options import SourceOptions, parse
from odradek.client.spark.reading import BatchReader, StreamReader
from odradek.client.spark.sink_options import parse_sink
from odradek.client.spark.spark_versions import DataSourceStreamArrowWriter
from odradek.client.spark.writing import BatchWriter, check_schema, stream_writer

FORMAT = "odradek"
HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def spark_schema(*, include_headers: bool) -> StructType:
    """Return the columns of Spark's own Kafka source."""
    columns = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    return StructType([*columns, StructField("headers", HEADERS)] if include_headers else columns)


class OdradekSource(DataSource):
    """Data source for reading and writing topics."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return spark_schema(include_headers=parse(self.options).include_headers)

    def reader(self, schema: StructType) -> BatchReader:
        return BatchReader(_checked(parse(self.options), schema))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 (Spark's name)
        return StreamReader(_checked(parse(self.options), schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = parse_sink(self.options)
        check_schema(schema, options)
        return BatchWriter(options, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        options = parse_sink(self.options)
        check_schema(schema, options)
        return stream_writer(options, schema)


def _checked(options: SourceOptions, asked: StructType) -> SourceOptions:
    """Return the options. Raises ConfigError when the query has given columns of its own."""
    fixed, given = spark_schema(include_headers=options.include_headers).simpleString(), asked.simpleString()
    if given != fixed:
        raise ConfigError(f"the columns are always {fixed}: leave out schema(), which says {given}, and use select")
    return options
