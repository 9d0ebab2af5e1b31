package kafka.server

import java.io.{BufferedReader, InputStreamReader}
import java.net.{InetAddress, ServerSocket}
import java.nio.charset.StandardCharsets.UTF_8
import scala.jdk.CollectionConverters._
import scala.util.Try

import org.apache.kafka.common.network.ListenerName
import org.apache.kafka.common.security.auth.{AuthenticationContext, KafkaPrincipalBuilder, SecurityProtocol}
import org.apache.kafka.common.utils.Utils

/**
 * Tells brokers of ours, which take no Java classes, who a client without a login is, by the test's class that names clients
 * by their listener, or all of them as the test says at the moment: a line with the listener is asked, and `TYPE:NAME` told.
 */
class ClientNames(config: KafkaConfig) {
  private val socket = new ServerSocket(0, 50, InetAddress.getLoopbackAddress)
  val port: Int = socket.getLocalPort

  private val thread = new Thread(() => while (!socket.isClosed) Try(answer()), "names of clients")
  thread.setDaemon(true)
  thread.start()

  def close(): Unit = socket.close()

  /** Whether the test has such a class. */
  def told: Boolean = config.originals.keySet.asScala.exists(_.endsWith("principal.builder.class"))

  private def answer(): Unit = {
    val asking = socket.accept()
    try {
      val listener = new BufferedReader(new InputStreamReader(asking.getInputStream, UTF_8)).readLine()
      asking.getOutputStream.write(s"${builder(listener).build(Connection(listener))}\n".getBytes(UTF_8))
    } finally asking.close()
  }

  private def builder(listener: String): KafkaPrincipalBuilder = {
    val settings = config.valuesWithPrefixOverride(ListenerName.normalised(listener).configPrefix)
    Utils.newInstance(settings.get("principal.builder.class").asInstanceOf[Class[_]].getName, classOf[KafkaPrincipalBuilder])
  }

  private case class Connection(listener: String) extends AuthenticationContext {
    override def securityProtocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    override def clientAddress: InetAddress = InetAddress.getLoopbackAddress
    override def listenerName: String = listener
  }
}
