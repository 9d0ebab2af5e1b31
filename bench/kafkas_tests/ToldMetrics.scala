package kafka.server

import java.net.URL
import java.util
import scala.io.Source
import scala.jdk.CollectionConverters._
import scala.util.Using

import com.yammer.metrics.core.Gauge
import org.apache.kafka.common.MetricName
import org.apache.kafka.common.metrics.{KafkaMetric, Measurable, MetricConfig, Metrics}
import org.apache.kafka.common.utils.Time
import org.apache.kafka.server.metrics.KafkaYammerMetrics

/** What the broker's `metrics.port` tells of quotas and of authentication, by the names that Kafka's tests look up. */
class ToldMetrics(port: Int) extends Metrics {
  private val Authentication = "kafka_server_socket_server_metrics_"
  private val Killed = new com.yammer.metrics.core.MetricName("kafka.network", "SocketServer", "ExpiredConnectionsKilledCount")
  private var began = 0L
  private var lines: Seq[String] = Nil

  KafkaYammerMetrics.defaultRegistry.removeMetric(Killed)
  KafkaYammerMetrics.defaultRegistry.newGauge(Killed, new Gauge[Double] {
    override def value: Double = ofLine(page().find(_.startsWith("kafka_network_socketserver_expiredconnectionskilledcount ")).get)
  })

  override def metric(name: MetricName): KafkaMetric = metrics.get(name)

  override def metrics: util.Map[MetricName, KafkaMetric] = new util.HashMap[MetricName, KafkaMetric](super.metrics) {
    override def get(name: Any): KafkaMetric = told(name.asInstanceOf[MetricName]).getOrElse(super.get(name))
    override def values: util.Collection[KafkaMetric] = (super.values.asScala ++ authentication()).asJavaCollection
  }

  private def told(name: MetricName): Option[KafkaMetric] = Option(name.tags.get("client-id")).flatMap { clientId =>
    val start = s"""kafka_server_quota_${name.name.replace('-', '_')}{resource="${name.group}",user="${name.tags.get("user")}",clientId="$clientId"} """
    page().find(_.startsWith(start)).map(ofLine).filter(_ > 0).map(metric(name, _))
  }

  private def authentication(): Seq[KafkaMetric] = page().filter(_.startsWith(Authentication)).map { line =>
    val name = line.stripPrefix(Authentication).takeWhile(_ != '{').replace('_', '-')
    metric(new MetricName(name, "socket-server-metrics", "", util.Collections.emptyMap()), ofLine(line))
  }

  private def ofLine(line: String): Double = line.drop(line.lastIndexOf(' ') + 1).toDouble

  private def metric(name: MetricName, value: Double): KafkaMetric = {
    val same: Measurable = (_, _) => value
    new KafkaMetric(new Object, name, same, new MetricConfig, Time.SYSTEM)
  }

  /** The broker lets few read at once: one reads for all who have asked before. */
  private def page(): Seq[String] = {
    val asked = System.nanoTime
    synchronized {
      if (began < asked) {
        began = System.nanoTime
        lines = Using.resource(Source.fromURL(new URL(s"http://127.0.0.1:$port/metrics")))(_.getLines().toList)
      }
      lines
    }
  }
}
